// Each channel by itself, or small groups of channels, a vector of channels at a time. What the
// results at one axis have in common (Segment) is found out once for a problem, also at the border
// of the image, and for backward data with a stride above 1, where results whose places differ by
// the stride read the same taps. The kernels cross the segments of both axes. They go through the
// images in bands of a few rows, so that what rows share is read from the first cache.
#include <omp.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/depthwise_kernels.hpp"
#include "backend/cpu/packed_weights.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

/// Planes of a block with so many bytes at most are copied with zeros around them, so that all
/// results have all taps. The border of larger ones matters little.
constexpr int64_t kWindowBytes = 20 << 10;
/// What a band reads and writes of a strip.
constexpr int64_t kBandBytes = 32 << 10;
/// Sums of gradients are made in so many pieces at least, however many threads there are, so that
/// their number changes no bit.
constexpr int64_t kPieces = 64;

int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/// One axis of a problem.
struct Axis {
  int64_t in, out, kernel, stride, pad, dilation;
};

/// Adjacent results along an axis that read the same taps of the kernel. Result i lies at
/// out + i * out_step. Its tap m is tap + m * tap_step of the kernel, and reads the source at
/// in + i * in_step + m * in_tap. Some results have no tap.
struct Segment {
  int64_t count = 1;
  int64_t out = 0, out_step = 1;
  int64_t in = 0, in_step = 1;
  int64_t taps = 0, tap = 0, tap_step = 1, in_tap = 1;

  /// With so many floats from a result, a source and a tap to the next.
  DepthwisePart part(int64_t in_unit, int64_t out_unit, int64_t weights_unit) const {
    return {.count = count,
            .taps = taps,
            .in = in * in_unit,
            .in_step = in_step * in_unit,
            .in_tap = (taps > 1 ? in_tap : in_step) * in_unit,
            .out = out * out_unit,
            .out_step = out_step * out_unit,
            .weights = tap * weights_unit,
            .weights_step = tap_step * weights_unit};
  }
};

/// Adds the next result of a phase, whose segments begin at first_of_phase. Joins it to the one
/// before it if both read the same taps.
void add_result(std::vector<Segment>& segments, size_t first_of_phase, const Segment& result) {
  if (segments.size() > first_of_phase) {
    Segment& last = segments.back();
    if (last.taps == result.taps && last.tap == result.tap) {
      ++last.count;
      return;
    }
  }
  segments.push_back(result);
}

std::vector<Segment> forward_segments(const Axis& a) {
  std::vector<Segment> segments;
  for (int64_t p = 0; p < a.out; ++p) {
    const int64_t start = p * a.stride - a.pad;  // of tap 0
    const int64_t first = std::clamp<int64_t>(ceil_div(-start, a.dilation), 0, a.kernel);
    const int64_t last = std::clamp<int64_t>(ceil_div(a.in - start, a.dilation), first, a.kernel);
    Segment result{.out = p, .in_step = a.stride, .taps = last - first, .in_tap = a.dilation};
    if (result.taps > 0) {
      result.in = start + first * a.dilation;
      result.tap = first;
    }
    add_result(segments, 0, result);
  }
  return segments;
}

std::vector<Segment> backward_segments(const Axis& a) {
  const int64_t common = std::gcd(a.stride, a.dilation);
  std::vector<Segment> segments;
  for (int64_t phase = 0; phase < std::min(a.stride, a.in); ++phase) {
    const size_t first_of_phase = segments.size();
    for (int64_t q = phase; q < a.in; q += a.stride) {
      Segment result{.out = q,
                     .out_step = a.stride,
                     .tap_step = -a.stride / common,
                     .in_tap = a.dilation / common};
      // From the last tap on: in ascending order of what they read.
      for (int64_t tap = a.kernel - 1; tap >= 0; --tap) {
        const int64_t at = q + a.pad - tap * a.dilation;
        if (at < 0 || at % a.stride != 0 || at / a.stride >= a.out) continue;
        if (result.taps++ > 0) continue;
        result.in = at / a.stride;
        result.tap = tap;
      }
      add_result(segments, first_of_phase, result);
    }
  }
  return segments;
}

/// The segments of both axes of a pass, and the bands of rows that it is cut into.
class Parts {
 public:
  struct Image {
    int64_t h, w;
  };

  /// `source_image`, `result_image`: of the pass, not of the problem. `pixel`: floats from a pixel
  /// to the next. `kernel_row`: taps. `width`: of a vector. `tap`: floats of a tap's weights.
  Parts(std::vector<Segment> rows, const std::vector<Segment>& columns, Image source_image,
        Image result_image, int64_t pixel, int64_t kernel_row, int64_t width, int64_t tap)
      : rows_(std::move(rows)),
        source_row_(source_image.w * pixel),
        result_row_(result_image.w * pixel),
        weights_row_(kernel_row * tap),
        height_(result_image.h) {
    for (const Segment& segment : columns) columns_.push_back(segment.part(pixel, pixel, tap));
    const int64_t read = (source_image.h * source_image.w + height_ - 1) / height_;
    const int64_t bytes = (read + result_image.w) * width * static_cast<int64_t>(sizeof(float));
    bands_ = (height_ + kBandBytes / bytes) / (kBandBytes / bytes + 1);
    images_ = std::max<int64_t>(1, kBandBytes / (bytes * height_));
  }

  int64_t bands() const { return bands_; }
  /// Where an image is one band: so many images are no more than a band has.
  int64_t images() const { return images_; }
  int64_t first_row(int64_t band) const { return height_ * band / bands_; }
  size_t bytes() const {
    return rows_.size() * sizeof(Segment) + columns_.size() * sizeof(DepthwisePart);
  }

  /// Calls body(rows, columns, number of columns) for all parts of a band.
  template <class Body>
  void each(int64_t band, const Body& body) const {
    const int64_t begin = first_row(band), end = first_row(band + 1);
    for (Segment rows : rows_) {
      const int64_t first =
          std::clamp<int64_t>(ceil_div(begin - rows.out, rows.out_step), 0, rows.count);
      const int64_t last =
          std::clamp<int64_t>(ceil_div(end - rows.out, rows.out_step), 0, rows.count);
      if (first == last) continue;
      rows.count = last - first;
      rows.in += first * rows.in_step;
      rows.out += first * rows.out_step;
      body(rows.part(source_row_, result_row_, weights_row_), columns_.data(),
           static_cast<int64_t>(columns_.size()));
    }
  }

 private:
  std::vector<Segment> rows_;
  std::vector<DepthwisePart> columns_;
  int64_t source_row_, result_row_, weights_row_;
  int64_t height_;
  int64_t bands_, images_;
};

/// The source of a pass with zeros around it, in extents of a plane.
struct Window {
  int64_t h, w;              // with the zeros
  int64_t first_h, first_w;  // where the source begins
};

/// What the passes have in common. A block holds the channels that a pixel has side by side: a
/// block of blocked formats, all channels of channels-last images.
struct Plan {
  explicit Plan(const ConvolutionProblem& p)
      : kernels(depthwise_kernels()),
        batch(p.source[0]),
        channels(p.source[1]),
        group(channels / p.groups),
        pixel(p.source_format == Format::channels_last ? channels : block_of(p.source_format)),
        blocks((channels + pixel - 1) / pixel),
        strips((pixel + kernels.width - 1) / kernels.width),
        last_lanes(pixel - (strips - 1) * kernels.width),
        h(p.kernel.size() > 1 ? axis(p, 0) : Axis{1, 1, 1, 1, 0, 1}),
        w(axis(p, static_cast<int>(p.kernel.size()) - 1)) {}

  static Axis axis(const ConvolutionProblem& p, int number) {
    const auto i = static_cast<size_t>(number);
    return {p.source[number + 2], p.target[number + 2], p.kernel[i], p.stride[i], p.pad[i],
            p.dilation[i]};
  }

  /// None if the pass reads its source where it lies.
  std::optional<Window> window(bool backward) const {
    if (backward && (h.stride > 1 || w.stride > 1)) return std::nullopt;
    const auto [first_h, end_h] = zeros(h, backward);
    const auto [first_w, end_w] = zeros(w, backward);
    if (first_h + end_h + first_w + end_w == 0) return std::nullopt;
    const Window window{(backward ? h.out : h.in) + first_h + end_h,
                        (backward ? w.out : w.in) + first_w + end_w, first_h, first_w};
    const auto bytes = window.h * window.w * pixel * static_cast<int64_t>(sizeof(float));
    return bytes <= kWindowBytes ? std::optional(window) : std::nullopt;
  }

  Parts parts(bool backward, const std::optional<Window>& window) const {
    Axis rows = h, columns = w;
    if (window) {
      (backward ? rows.out : rows.in) = window->h;
      (backward ? columns.out : columns.in) = window->w;
      rows.pad = backward ? h.pad + window->first_h : 0;
      columns.pad = backward ? w.pad + window->first_w : 0;
    }
    const auto segments = backward ? backward_segments : forward_segments;
    const Parts::Image source{rows.in, columns.in}, target{rows.out, columns.out};
    if (backward) {
      return {segments(rows), segments(columns), target,        source,
              pixel,          w.kernel,          kernels.width, tap_weights()};
    }
    return {segments(rows), segments(columns), source,        target,
            pixel,          w.kernel,          kernels.width, tap_weights()};
  }

  int64_t taps() const { return h.kernel * w.kernel; }
  int64_t source_block() const { return h.in * w.in * pixel; }
  int64_t target_block() const { return h.out * w.out * pixel; }
  /// Floats of the weights of one tap, and of all.
  int64_t tap_weights() const { return group * kernels.width; }
  int64_t strip_weights() const { return taps() * tap_weights(); }
  int64_t lanes(int64_t strip) const { return strip + 1 < strips ? kernels.width : last_lanes; }
  /// Channels of a strip that are no padding.
  int64_t used(int64_t block, int64_t strip) const {
    return std::clamp<int64_t>(channels - first(block, strip), 0, lanes(strip));
  }
  int64_t first(int64_t block, int64_t strip) const {
    return block * pixel + strip * kernels.width;
  }

  /// Calls body(block, strip, number) for all strips of an image.
  template <class Body>
  void each_strip(const Body& body) const {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t s = 0; s < strips; ++s) body(b, s, b * strips + s);
    }
  }

  /// Zeros that results read before and behind the source.
  static std::pair<int64_t, int64_t> zeros(const Axis& a, bool backward) {
    const int64_t reach = (a.kernel - 1) * a.dilation;
    if (backward) {
      return {std::max<int64_t>(0, reach - a.pad), std::max<int64_t>(0, a.in + a.pad - a.out)};
    }
    return {a.pad, std::max<int64_t>(0, (a.out - 1) * a.stride + reach + 1 - a.in - a.pad)};
  }

  const DepthwiseKernels& kernels;
  int64_t batch, channels;
  int64_t group;  // channels of one
  int64_t pixel;  // floats from a pixel to the next
  int64_t blocks;
  int64_t strips, last_lanes;  // of a block
  Axis h, w;
};

/// Copies planes of a block into windows.
class Windows {
 public:
  /// `h`, `w`: of the source.
  Windows(const std::optional<Window>& window, int64_t h, int64_t w, int64_t pixel)
      : window_(window), h_(h), row_(w * pixel), pixel_(pixel) {}

  explicit operator bool() const { return window_.has_value(); }
  /// Floats of a window.
  int64_t count() const { return window_ ? window_->h * window_->w * pixel_ : 0; }
  /// Memory of the thread for `planes` windows, full of zeros; null if there are none.
  float* make(int64_t planes) const {
    if (!window_) return nullptr;
    float* const windows = convolution_scratch(ConvolutionScratch::window, planes * count());
    std::fill_n(windows, planes * count(), 0.0F);
    return windows;
  }
  void fill(const float* plane, float* window) const {
    float* to = window + (window_->first_h * window_->w + window_->first_w) * pixel_;
    for (int64_t row = 0; row < h_; ++row, plane += row_, to += window_->w * pixel_) {
      std::copy_n(plane, row_, to);
    }
  }

 private:
  std::optional<Window> window_;
  int64_t h_, row_, pixel_;
};

/// Forward, and backward to the data.
class Results : public ConvolutionPrimitive {
 public:
  Results(const ConvolutionProblem& problem, bool backward)
      : plan_(problem),
        windows_(plan_.window(backward), backward ? plan_.h.out : plan_.h.in,
                 backward ? plan_.w.out : plan_.w.in, plan_.pixel),
        parts_(plan_.parts(backward, plan_.window(backward))),
        source_(plan_.source_block()),
        result_(plan_.target_block()),
        adds_(problem.adds && !backward),
        relu_(backward ? std::nullopt : problem.relu),
        backward_(backward),
        weights_(text("depthwise ", plan_.pixel, " ", plan_.kernels.width, " ", problem.source[1],
                      " ", plan_.taps(), " ", plan_.group, transposes() ? " transposed" : ""),
                 plan_.blocks * plan_.strips * plan_.strip_weights(), problem.training),
        bias_(Shape{problem.bias && !backward ? plan_.blocks * plan_.strips * plan_.kernels.width
                                              : 0}) {
    if (backward) std::swap(source_, result_);
  }

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    compute(x, weights, bias, y);
  }
  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    compute(dy, weights, nullptr, dx);
  }

  size_t kept_bytes() const override { return weights_.bytes() + bias_.bytes() + parts_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    weights_.plan_scratch(plan);
    need_scratch(plan, ConvolutionScratch::window, windows_.count(), plan.threads());
  }

 private:
  /// Weights lead from the outputs to the channels; of one channel a group, both are the same.
  bool transposes() const { return backward_ && plan_.group > 1; }

  void pack(const float* weights, float* to) const {
    const int64_t taps = plan_.taps(), width = plan_.kernels.width, group = plan_.group;
    plan_.each_strip([&](int64_t block, int64_t strip, int64_t number) {
      float* const packed = to + number * plan_.strip_weights();
      const float* const from = weights + plan_.first(block, strip) * group * taps;
      const int64_t used = plan_.used(block, strip);
      if (used < width) std::fill_n(packed, plan_.strip_weights(), 0.0F);
      for (int64_t c = 0; c < used; ++c) {
        for (int64_t turn = 0; turn < group; ++turn) {
          const int64_t other = c ^ turn;
          const int64_t output = transposes() ? other : c,
                        input = (transposes() ? c : other) % group;
          const float* const plain = from + (output * group + input) * taps;
          for (int64_t t = 0; t < taps; ++t) packed[(t * group + turn) * width + c] = plain[t];
        }
      }
    });
  }

  /// The bias with zeros behind the channels of each block; null if there is none.
  const float* padded_bias(const float* bias) {
    if (bias == nullptr) return nullptr;
    float* const padded = bias_.change<float>();
    plan_.each_strip([&](int64_t block, int64_t strip, int64_t number) {
      std::copy_n(bias + plan_.first(block, strip), plan_.used(block, strip),
                  padded + number * plan_.kernels.width);
    });
    return padded;
  }

  void compute(const float* from, const ConvolutionWeights& weights, const float* bias, float* to) {
    const float* const packed =
        weights_.get(weights, [&](const float* plain, float* place) { pack(plain, place); });
    const float* const padded = padded_bias(bias);
    const int64_t strips = plan_.strips, bands = parts_.bands();
    const int64_t grain = kElementGrain / (result_ / bands) + 1;
    parallel_for(plan_.batch * plan_.blocks * bands, grain, [&](int64_t begin, int64_t end) {
      float* const window = windows_.make(1);
      for (int64_t at = begin; at < end; ++at) {
        const int64_t plane = at / bands, first = plane % plan_.blocks * strips;
        if (windows_) windows_.fill(from + plane * source_, window);
        const DepthwiseBlock block{
            .in = windows_ ? window : from + plane * source_,
            .weights = packed + first * plan_.strip_weights(),
            .out = to + plane * result_,
            .bias = padded != nullptr ? padded + first * plan_.kernels.width : nullptr,
            .group = plan_.group,
            .strips = strips,
            .weights_strip = plan_.strip_weights(),
            .last_lanes = plan_.last_lanes,
            .adds = adds_,
            .relu = relu_.has_value(),
            .slope = relu_.value_or(0)};
        parts_.each(at % bands, [&](const auto& rows, const auto* columns, int64_t count) {
          plan_.kernels.results(rows, columns, count, block);
        });
      }
    });
  }

  Plan plan_;
  Windows windows_;
  Parts parts_;
  int64_t source_, result_;  // floats of a block
  bool adds_;
  std::optional<float> relu_;
  bool backward_;
  PackedWeights weights_;
  Tensor bias_;
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  explicit BackwardWeights(const ConvolutionProblem& problem)
      : plan_(problem),
        windows_(plan_.window(false), plan_.h.in, plan_.w.in, plan_.pixel),
        parts_(plan_.parts(false, plan_.window(false))),
        pieces_(std::clamp<int64_t>(kPieces / plan_.blocks, 1, plan_.batch * parts_.bands())),
        strip_sums_(plan_.strip_weights() + plan_.kernels.width),
        sums_(plan_.blocks * plan_.strips * strip_sums_) {}

  size_t kept_bytes() const override { return parts_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    need_scratch(plan, ConvolutionScratch::sums, pieces_ * sums_, 1);
    need_scratch(plan, ConvolutionScratch::window, parts_.images() * windows_.count(),
                 plan.threads());
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    float* const sums = convolution_scratch(ConvolutionScratch::sums, pieces_ * sums_);
    const int64_t of_block = plan_.strips * strip_sums_;
    parallel_for(pieces_ * plan_.blocks, 1, [&](int64_t begin, int64_t end) {
      float* const window = windows_.make(parts_.images());
      for (int64_t i = begin; i < end; ++i) {
        add_piece(i / plan_.blocks, i % plan_.blocks, x, dy, dbias != nullptr, window,
                  sums + i * of_block);
      }
    });
    parallel_for(plan_.blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        float* const total = sums + block * of_block;
        for (int64_t piece = 1; piece < pieces_; ++piece) {
          const float* const of_piece = total + piece * sums_;
          for (int64_t i = 0; i < of_block; ++i) total[i] += of_piece[i];
        }
        for (int64_t strip = 0; strip < plan_.strips; ++strip) {
          collect(block, strip, total + strip * strip_sums_, add_weights, dweights, add_bias,
                  dbias);
        }
      }
    });
  }

 private:
  /// Sets sums (strip, tap, width), and behind the taps those of dy, to those over the piece's
  /// bands of a block. Bands are numbered through the images.
  void add_piece(int64_t piece, int64_t block, const float* x, const float* dy, bool bias,
                 float* window, float* sums) const {
    std::fill_n(sums, plan_.strips * strip_sums_, 0.0F);
    const int64_t bands = parts_.bands(), all = plan_.batch * bands;
    const int64_t end = all * (piece + 1) / pieces_;
    for (int64_t at = all * piece / pieces_; at < end; at += parts_.images()) {
      const int64_t plane = at / bands * plan_.blocks + block;
      const int64_t images = std::min(parts_.images(), end - at);
      const int64_t next = plan_.blocks * plan_.source_block();  // of the block's planes
      const float* const in = x + plane * plan_.source_block();
      for (int64_t i = 0; windows_ && i < images; ++i) {
        windows_.fill(in + i * next, window + i * windows_.count());
      }
      for (int64_t strip = 0; strip < plan_.strips; ++strip) {
        const int64_t channel = strip * plan_.kernels.width;
        add_band(at % bands, bias,
                 {.in = (windows_ ? window : in) + channel,
                  .gradient = dy + plane * plan_.target_block() + channel,
                  .images = images,
                  .in_image = windows_ ? windows_.count() : next,
                  .gradient_image = plan_.blocks * plan_.target_block(),
                  .sums = sums + strip * strip_sums_,
                  .lanes = plan_.lanes(strip),
                  .group = plan_.group});
      }
    }
  }

  void add_band(int64_t band, bool bias, const DepthwiseSums& sums) const {
    parts_.each(band, [&](const auto& rows, const auto* columns, int64_t count) {
      plan_.kernels.sums(rows, columns, count, sums);
    });
    if (!bias) return;
    const int64_t begin = parts_.first_row(band), end = parts_.first_row(band + 1);
    for (int64_t image = 0; image < sums.images; ++image) {
      plan_.kernels.pixel_sums(
          sums.gradient + image * sums.gradient_image + begin * plan_.w.out * plan_.pixel,
          (end - begin) * plan_.w.out, plan_.pixel, sums.lanes, sums.sums + plan_.strip_weights());
    }
  }

  void collect(int64_t block, int64_t strip, const float* total, bool add_weights, float* dweights,
               bool add_bias, float* dbias) const {
    const int64_t taps = plan_.taps(), width = plan_.kernels.width, group = plan_.group;
    for (int64_t i = 0; i < plan_.used(block, strip); ++i) {
      const int64_t channel = plan_.first(block, strip) + i;
      for (int64_t turn = 0; turn < group; ++turn) {
        // From channel i to i ^ turn.
        float* const to = dweights + ((channel ^ turn) * group + channel % group) * taps;
        for (int64_t t = 0; t < taps; ++t) {
          to[t] = (add_weights ? to[t] : 0) + total[(t * group + turn) * width + i];
        }
      }
      if (dbias == nullptr) continue;
      dbias[channel] = (add_bias ? dbias[channel] : 0) + total[plan_.strip_weights() + i];
    }
  }

  Plan plan_;
  Windows windows_;
  Parts parts_;
  int64_t pieces_;      // ranges of the bands of all images
  int64_t strip_sums_;  // floats of a strip's sums
  int64_t sums_;        // and of a piece's
};

std::string refusal(const ConvolutionProblem& problem, ConvolutionPass,
                    ConvolutionAlgorithm algorithm) {
  const int64_t channels = problem.source[1];
  if (algorithm == ConvolutionAlgorithm::winograd) return "Winograd's algorithm is asked for";
  const int64_t width = depthwise_kernels().width, group = channels / problem.groups;
  if (problem.target[1] != channels || width % group != 0)
    return text("it takes as many outputs as channels, in groups that divide ", width);
  if (problem.kernel.empty() || problem.kernel.size() > 2)
    return "it takes one or two spatial axes";
  if (problem.source_format == Format::contiguous)
    return "it takes channels_last or blocked images";
  if (problem.source_format != Format::channels_last &&
      block_of(problem.source_format) % group != 0) {
    return text("groups of ", group, " channels do not fill its blocks");
  }
  if (problem.source_format != problem.target_format) return "it takes and makes one format";
  if (problem.target_image > 0) return "it makes images that lie one behind the other";
  if (problem.source.count() == 0 || problem.target.count() == 0) return "it has no elements";
  return {};
}

std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                           ConvolutionPass pass) {
  if (pass == ConvolutionPass::backward_weights) return std::make_unique<BackwardWeights>(problem);
  return std::make_unique<Results>(problem, pass == ConvolutionPass::backward_data);
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> depthwise_convolutions() {
  return make_library({"depthwise", "3", name_of_simd, refusal, make});
}

}  // namespace crema
