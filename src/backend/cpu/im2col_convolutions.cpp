// The three passes of one image and group as products, with the taps of the kernels (channels *
// kernel...) and the output pixels:
//
//                     rows     columns  summed over  gathered matrix
//   forward           outputs  pixels   taps         right factor: a row a tap
//   backward data     taps     pixels   outputs      result, which is added to the image
//   backward weights  outputs  taps     pixels       right factor: a row a pixel
//
// The columns of a product are cut into panels of a few vectors. What is gathered at a time stays
// in a cache.
//
// If a kernel moves by one row of the image, tap (h + 1, w) of a channel reads the same elements as
// tap (h, w), one row of pixels later. The rows of such taps are parts of one strip, which is
// gathered once. Likewise the taps of pixel (h + 1, w) are those of pixel (h, w), one row of the
// kernel later.
#include <omp.h>

#include <algorithm>
#include <span>

#include "backend/cpu/convolution_scratch.hpp"
#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/im2col_geometry.hpp"
#include "backend/cpu/im2col_kernels.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

/// What is gathered and multiplied at a time: fits into the first-level cache.
constexpr int64_t kChunkBytes = 24 << 10;
/// The same where a panel reads only a part of it.
constexpr int64_t kWideChunkBytes = 48 << 10;
/// The most memory for the gradients of weights that each thread sums for itself, in all.
constexpr int64_t kMaxSumsBytes = int64_t{64} << 20;
/// The most memory for the padded image of a thread.
constexpr int64_t kMaxPaddedBytes = int64_t{16} << 20;

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

size_t bytes_of(const std::vector<int64_t>& values) { return values.size() * sizeof(int64_t); }

/// Elements from a strip to the next: whole vectors, and strips do not share a set of the cache.
int64_t strip_stride(int64_t count, int64_t width) {
  const int64_t vectors = (count + width - 1) / width;
  return (vectors | 1) * width;
}

/// Runs for the elements at `origins` of an image, of which `adjacent` ones follow each other.
std::vector<GatheredRun> make_runs(std::span<const int64_t> origins, int64_t first,
                                   int64_t adjacent) {
  std::vector<GatheredRun> runs;
  const auto count = static_cast<int64_t>(origins.size());
  for (int64_t i = 0; i < count;) {
    const int64_t next = std::min((first + i) / adjacent * adjacent + adjacent - first, count);
    runs.push_back({origins[static_cast<size_t>(i)], i, next - i});
    i = next;
  }
  return runs;
}

/// Calls body(begin, end) for panels of [0, count), of about the same number of vectors.
template <class Body>
void each_panel(const Im2colKernels& kernels, int64_t count, const Body& body) {
  const int64_t width = kernels.width, most = kernels.lanes / width;
  const int64_t vectors = (count + width - 1) / width, panels = (vectors + most - 1) / most;
  for (int64_t p = 0; p < panels; ++p) {
    body(vectors * p / panels * width, std::min(vectors * (p + 1) / panels * width, count));
  }
}

/// Calls body(begin, end) for chunks of the strips [first, last) of at most `bytes`. A chunk has
/// whole units of strips.
template <class Body>
void each_chunk(int64_t first, int64_t last, int64_t unit, int64_t stride, int64_t bytes,
                const Body& body) {
  const int64_t most = std::max<int64_t>(1, bytes / (stride * unit * 4));
  const int64_t units = (last - first) / unit, chunks = (units + most - 1) / most;
  for (int64_t c = 0; c < chunks; ++c) {
    body(first + units * c / chunks * unit, first + units * (c + 1) / chunks * unit);
  }
}

/// Elements behind a chunk that the vectors of a panel may read.
constexpr int64_t kPanelSlack = 64;

/// The most elements of a chunk, and the slack.
int64_t chunk_count(int64_t unit, int64_t stride, int64_t bytes) {
  return std::max(bytes / 4, stride * unit) + kPanelSlack;
}

/// Gathered rows of pixels, a row a tap, of forward and backward data.
struct PixelStrips {
  struct Panel {
    int64_t begin, end;             // pixels
    std::vector<GatheredRun> runs;  // of a strip
  };

  PixelStrips(const Im2colGeometry& g, const Im2colKernels& kernels) : stride(0) {
    int64_t reach = (g.moving_rows - 1) * g.row_dilation * g.out_width;
    const int64_t lanes = std::min(kernels.lanes, g.pixels());
    std::vector<int64_t> places = g.pixel_at;
    if (lanes + reach < g.moving_rows * lanes) {
      taps = g.moving_rows;
      shift = g.row_dilation * g.out_width;
      for (int64_t i = 0; i < reach; ++i) {
        places.push_back(places[places.size() - static_cast<size_t>(g.out_width)] + g.row_pitch);
      }
    } else {
      reach = 0;
    }
    each_panel(kernels, g.pixels(), [&](int64_t begin, int64_t end) {
      const auto of_panel = std::span(places).subspan(static_cast<size_t>(begin),
                                                      static_cast<size_t>(end - begin + reach));
      panels.push_back({begin, end, make_runs(of_panel, begin, g.out_width)});
      widest = std::max(widest, round_up(end - begin, kernels.width));
    });
    stride = strip_stride(widest + reach, kernels.width);
    for (int64_t s = 0; s < g.taps() / taps; ++s) {
      for (int64_t t = 0; t < taps; ++t) {
        tap_of.push_back((s / g.kernel_width * taps + t) * g.kernel_width + s % g.kernel_width);
        part_at.push_back(s * stride + t * shift);
      }
      origins.push_back(
          g.tap_at[static_cast<size_t>(tap_of[tap_of.size() - static_cast<size_t>(taps)])]);
    }
  }

  int64_t count() const { return static_cast<int64_t>(origins.size()); }
  GatheredRows gathered(const Im2colGeometry& g, const Panel& panel, int64_t begin,
                        int64_t end) const {
    return {.origins = origins.data() + begin,
            .rows = end - begin,
            .runs = panel.runs.data(),
            .run_count = static_cast<int64_t>(panel.runs.size()),
            .step = g.stride,
            .row = stride,
            .apart = g.kernel_width};
  }
  size_t bytes() const {
    size_t bytes = bytes_of(origins) + bytes_of(tap_of) + bytes_of(part_at);
    for (const Panel& panel : panels) bytes += panel.runs.size() * sizeof(GatheredRun);
    return bytes;
  }

  int64_t taps = 1;              // of a strip
  int64_t shift = 0;             // from the row of a tap to that of the next one in the strip
  int64_t widest = 0;            // panel, in whole vectors
  int64_t stride;                // from a strip to the next
  std::vector<int64_t> origins;  // of each strip in the image
  // One entry for each tap of each strip: its index among the weights, and where its row begins.
  std::vector<int64_t> tap_of, part_at;
  std::vector<Panel> panels;
};

/// 0, step, 2 * step, ...
std::vector<int64_t> multiples(int64_t count, int64_t step) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i * step;
  return values;
}

class Forward : public ConvolutionPrimitive {
 public:
  explicit Forward(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        strips_(g_, kernels_),
        weight_rows_(multiples(g_.outputs, g_.taps())),
        adds_(problem.adds),
        relu_(problem.relu) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    const auto panels = static_cast<int64_t>(strips_.panels.size());
    parallel_for(g_.images * panels, 1, [&](int64_t begin, int64_t end) {
      float* const room = convolution_scratch(ConvolutionScratch::window, g_.padded());
      float* const gathered = convolution_scratch(ConvolutionScratch::partial, gathered_count());
      const float* padded = nullptr;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / panels, group = image % g_.groups;
        if (padded == nullptr || i % panels == 0) padded = g_.pad(x, image, room);
        compute(strips_.panels[static_cast<size_t>(i % panels)], padded, gathered,
                weights.values + group * g_.weights(), bias ? bias + group * g_.outputs : nullptr,
                y + g_.target_at(image));
      }
    });
  }

  size_t kept_bytes() const override {
    return g_.bytes() + strips_.bytes() + bytes_of(weight_rows_);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t threads =
        std::min<int64_t>(plan.threads(), g_.images * static_cast<int64_t>(strips_.panels.size()));
    need_scratch(plan, ConvolutionScratch::window, g_.padded(), threads);
    need_scratch(plan, ConvolutionScratch::partial, gathered_count(), threads);
  }

 private:
  int64_t gathered_count() const { return chunk_count(1, strips_.stride, kChunkBytes); }

  void compute(const PixelStrips::Panel& panel, const float* padded, float* gathered,
               const float* weights, const float* bias, float* y) const {
    const int64_t strips = strips_.count();
    each_chunk(0, strips, 1, strips_.stride, kChunkBytes, [&](int64_t begin, int64_t end) {
      kernels_.gather(strips_.gathered(g_, panel, begin, end), padded, gathered);
      const bool first = begin == 0, last = end == strips;
      kernels_.multiply({.a = weights,
                         .a_rows = weight_rows_.data(),
                         .a_steps = strips_.tap_of.data() + begin * strips_.taps,
                         .b = gathered,
                         .b_steps = strips_.part_at.data(),
                         .rows = g_.outputs,
                         .length = (end - begin) * strips_.taps,
                         .lanes = panel.end - panel.begin,
                         .out = y + panel.begin,
                         .out_row = g_.pixels(),
                         .bias = first ? bias : nullptr,
                         .adds = !first || adds_,
                         .relu = last && relu_.has_value(),
                         .slope = relu_.value_or(0)});
    });
  }

  Im2colGeometry g_;
  const Im2colKernels& kernels_;
  PixelStrips strips_;
  std::vector<int64_t> weight_rows_;  // where those of each output begin
  bool adds_;
  std::optional<float> relu_;
};

class BackwardData : public ConvolutionPrimitive {
 public:
  explicit BackwardData(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        strips_(g_, kernels_),
        weight_rows_(multiples(g_.outputs, g_.taps())),
        packed_rows_(multiples(g_.outputs, strips_.widest)) {
    for (int64_t t = 0; t < strips_.taps; ++t) {
      for (int64_t s = 0; s < strips_.count(); ++s) {
        tap_of_.push_back(strips_.tap_of[static_cast<size_t>(s * strips_.taps + t)]);
      }
    }
  }

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    // Of few images, each thread takes some of the channels.
    const int64_t parts = parts_for(omp_get_max_threads());
    parallel_for(g_.images * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / parts, part = i % parts;
        compute(g_.channels * part / parts, g_.channels * (part + 1) / parts,
                weights.values + image % g_.groups * g_.weights(), dy + g_.target_at(image),
                dx + image * g_.source());
      }
    });
  }

  size_t kept_bytes() const override {
    return g_.bytes() + strips_.bytes() + bytes_of(weight_rows_) + bytes_of(packed_rows_) +
           bytes_of(tap_of_);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t threads =
        std::min<int64_t>(plan.threads(), g_.images * parts_for(plan.threads()));
    need_scratch(plan, ConvolutionScratch::window, g_.pads() ? g_.padded() : 0, threads);
    need_scratch(plan, ConvolutionScratch::partial, gathered_count(), threads);
    need_scratch(plan, ConvolutionScratch::packed, packed_count(), threads);
  }

 private:
  /// Strips of a channel. The chunks have whole channels: then the order of the sums that make an
  /// element does not depend on the number of threads.
  int64_t unit() const { return strips_.count() / g_.channels; }
  int64_t parts_for(int64_t threads) const {
    return std::min(g_.channels, (threads + g_.images - 1) / g_.images);
  }
  int64_t gathered_count() const { return chunk_count(unit(), strips_.stride, kChunkBytes); }
  int64_t packed_count() const { return g_.outputs * strips_.widest; }

  void compute(int64_t channel_begin, int64_t channel_end, const float* weights, const float* dy,
               float* dx) const {
    const bool pads = g_.pads();
    float* const padded = pads ? convolution_scratch(ConvolutionScratch::window, g_.padded()) : dx;
    float* const gathered = convolution_scratch(ConvolutionScratch::partial, gathered_count());
    float* const packed = convolution_scratch(ConvolutionScratch::packed, packed_count());
    std::fill(padded + channel_begin * g_.plane(), padded + channel_end * g_.plane(), 0.0F);
    for (const PixelStrips::Panel& panel : strips_.panels) {
      const int64_t lanes = panel.end - panel.begin;
      // The product reads whole vectors, and dy may end within one.
      const bool packs = lanes != strips_.widest || lanes != g_.pixels();
      for (int64_t o = 0; packs && o < g_.outputs; ++o) {
        std::copy_n(dy + o * g_.pixels() + panel.begin, lanes, packed + o * strips_.widest);
      }
      each_chunk(channel_begin * unit(), channel_end * unit(), unit(), strips_.stride, kChunkBytes,
                 [&](int64_t begin, int64_t end) {
                   multiply(begin, end, lanes, weights, packs ? packed : dy, gathered);
                   kernels_.scatter(strips_.gathered(g_, panel, begin, end), gathered, padded);
                 });
    }
    if (pads) g_.unpad(channel_begin, channel_end, padded, dx);
  }

  /// Sets strips [begin, end).
  void multiply(int64_t begin, int64_t end, int64_t lanes, const float* weights,
                const float* packed, float* gathered) const {
    const bool adds = strips_.taps > 1;
    if (adds) std::fill_n(gathered, (end - begin) * strips_.stride, 0.0F);
    for (int64_t t = 0; t < strips_.taps; ++t) {
      kernels_.multiply({.a = weights,
                         .a_rows = tap_of_.data() + t * strips_.count() + begin,
                         .a_steps = weight_rows_.data(),
                         .b = packed,
                         .b_steps = packed_rows_.data(),
                         .rows = end - begin,
                         .length = g_.outputs,
                         .lanes = lanes,
                         .out = gathered + t * strips_.shift,
                         .out_row = strips_.stride,
                         .adds = adds});
    }
  }

  Im2colGeometry g_;
  const Im2colKernels& kernels_;
  PixelStrips strips_;
  std::vector<int64_t> weight_rows_, packed_rows_;  // where those of each output begin
  std::vector<int64_t> tap_of_;                     // that of the strips, taps outermost
};

/// Gathered rows of taps, a row a pixel, of backward weights.
struct TapStrips {
  /// Columns that are gathered together.
  struct Block {
    int64_t begin, columns;  // begin: in the sums, in whole vectors
    std::vector<GatheredRun> runs;
  };

  TapStrips(const Im2colGeometry& g, const Im2colKernels& kernels) {
    // A tile of a panel reads the gradients of some outputs column by column. Those of so many
    // pixels stay in the first-level cache, where the next column finds them.
    constexpr int64_t kMostPixels = 1000;
    const int64_t height = g.pixels() / g.out_width;
    if (g.moving_rows > 1 && g.row_dilation == 1 && height > 1 && g.pixels() <= kMostPixels) {
      gather_columns(g, kernels, height);
    } else {
      gather_pixels(g, kernels);
    }
    for (size_t s = 0; s < origins.size(); ++s) {
      for (int64_t i = 0; i < pixels; ++i) {
        pixel_of.push_back(i * g.out_width + static_cast<int64_t>(s));
        part_at.push_back(static_cast<int64_t>(s) * stride + i * shift);
      }
    }
  }

  int64_t count() const { return static_cast<int64_t>(origins.size()); }
  size_t bytes() const {
    size_t bytes = bytes_of(origins) + bytes_of(pixel_of) + bytes_of(part_at) + bytes_of(column_of);
    for (const Block& block : blocks) bytes += block.runs.size() * sizeof(GatheredRun);
    return bytes;
  }

  int64_t pixels = 1;  // of a strip: one, or a column of the output
  int64_t shift = 0;   // from the row of a pixel to that of the next one in the strip
  int64_t stride = 0;  // from a strip to the next
  int64_t sums = 0;    // columns of all blocks, in whole vectors
  int64_t chunk_bytes = kChunkBytes;
  std::vector<int64_t> origins;  // of each strip in the image
  // One entry for each pixel of each strip: its index, and where its row begins.
  std::vector<int64_t> pixel_of, part_at;
  std::vector<int64_t> column_of;  // the sums of each tap
  std::vector<Block> blocks;

 private:
  /// A strip has one pixel, a block one panel.
  void gather_pixels(const Im2colGeometry& g, const Im2colKernels& kernels) {
    each_panel(kernels, g.taps(), [&](int64_t begin, int64_t end) {
      const auto of_panel =
          std::span(g.tap_at).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      blocks.push_back({begin, end - begin, make_runs(of_panel, begin, g.kernel_width)});
      stride = std::max(stride, strip_stride(end - begin, kernels.width));
    });
    sums = round_up(g.taps(), kernels.width);
    origins = g.pixel_at;
    column_of = multiples(g.taps(), 1);
  }

  /// A strip has the pixels of a column, a block some channels: rows of the image, each with the
  /// elements of all its channels that the column reads.
  void gather_columns(const Im2colGeometry& g, const Im2colKernels& kernels, int64_t height) {
    const int64_t rows = height + g.moving_rows - 1, taps = g.moving_rows * g.kernel_width;
    const int64_t channel_bytes = g.out_width * rows * g.kernel_width * 4;
    const int64_t least = (kernels.lanes + taps - 1) / taps;
    const int64_t most =
        std::clamp(kWideChunkBytes / channel_bytes, std::min(least, g.channels), g.channels);
    const int64_t count = (g.channels + most - 1) / most;
    const int64_t channels = (g.channels + count - 1) / count;
    pixels = height;
    shift = channels * g.kernel_width;
    stride = strip_stride(rows * shift, kernels.width);
    const int64_t columns = taps * channels, padded = round_up(columns, kernels.width);
    sums = count * padded;
    chunk_bytes = kWideChunkBytes;
    origins = multiples(g.out_width, g.stride);
    column_of.resize(static_cast<size_t>(g.taps()));
    for (int64_t b = 0; b < count; ++b) {
      // The last block has some channels of the one before it too.
      const int64_t first = std::min(b * channels, g.channels - channels);
      Block block{b * padded, columns, {}};
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < channels; ++c) {
          block.runs.push_back({(first + c) * g.plane() + r * g.row_pitch,
                                r * shift + c * g.kernel_width, g.kernel_width});
        }
      }
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) {
          column_of[static_cast<size_t>((first + c) * taps + t)] =
              block.begin + t / g.kernel_width * shift + c * g.kernel_width + t % g.kernel_width;
        }
      }
      blocks.push_back(std::move(block));
    }
  }
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  explicit BackwardWeights(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        strips_(g_, kernels_),
        gradient_rows_(multiples(g_.outputs, g_.pixels())),
        sums_(g_.groups * g_.outputs * strips_.sums) {}

  /// Bytes of the sums of one thread, about.
  static int64_t sums_bytes(const ConvolutionProblem& problem) {
    return problem.target[1] * round_up(problem.weights().count(1), im2col_kernels().width) *
           static_cast<int64_t>(sizeof(float));
  }

  size_t kept_bytes() const override {
    return g_.bytes() + strips_.bytes() + bytes_of(gradient_rows_) +
           bias_sums_.capacity() * sizeof(double);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t pieces = pieces_for(plan.threads());
    need_scratch(plan, ConvolutionScratch::window, g_.padded(), pieces);
    need_scratch(plan, ConvolutionScratch::partial, gathered_count(), pieces);
    need_scratch(plan, ConvolutionScratch::sums, sums_ * pieces, 1);
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    const int64_t pieces = pieces_for(omp_get_max_threads()), outputs = g_.groups * g_.outputs;
    float* const sums = convolution_scratch(ConvolutionScratch::sums, pieces * sums_);
    bias_sums_.assign(static_cast<size_t>(dbias ? pieces * outputs : 0), 0);
    // Pieces are ranges of the strips of all samples, numbered through.
    const int64_t strips = samples() * strips_.count();
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        compute(strips * p / pieces, strips * (p + 1) / pieces, x, dy, sums + p * sums_,
                dbias ? bias_sums_.data() + p * outputs : nullptr);
      }
    });
    parallel_for(outputs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        collect(sums + o * strips_.sums, pieces, add_weights, dweights + o * g_.taps());
        if (dbias == nullptr) continue;
        double sum = add_bias ? static_cast<double>(dbias[o]) : 0;
        for (int64_t p = 0; p < pieces; ++p) {
          sum += bias_sums_[static_cast<size_t>(p * outputs + o)];
        }
        dbias[o] = static_cast<float>(sum);
      }
    });
  }

 private:
  int64_t samples() const { return g_.images / g_.groups; }
  int64_t pieces_for(int64_t threads) const {
    return std::min(threads, samples() * strips_.count());
  }
  int64_t gathered_count() const { return chunk_count(1, strips_.stride, strips_.chunk_bytes); }

  /// Sets sums (group, output, column) to those over strips [begin, end). Adds the gradients of
  /// the samples whose first strip is among them to bias_sums (group, output).
  void compute(int64_t begin, int64_t end, const float* x, const float* dy, float* sums,
               double* bias_sums) const {
    float* const room = convolution_scratch(ConvolutionScratch::window, g_.padded());
    float* const gathered = convolution_scratch(ConvolutionScratch::partial, gathered_count());
    for (int64_t group = 0; group < g_.groups; ++group) {
      for (int64_t at = begin; at < end;) {
        const int64_t image = at / strips_.count() * g_.groups + group;
        const int64_t first = at % strips_.count();
        const int64_t last = std::min(strips_.count(), first + end - at);
        const float* const padded = g_.pad(x, image, room);
        const float* const of_image = dy + g_.target_at(image);
        for (const TapStrips::Block& block : strips_.blocks) {
          add_products(block, first, last, at == begin, padded, gathered, of_image,
                       sums + group * g_.outputs * strips_.sums);
        }
        if (bias_sums != nullptr && first == 0) {
          kernels_.add_row_sums(of_image, g_.outputs, g_.pixels(), bias_sums + group * g_.outputs);
        }
        at += last - first;
      }
    }
  }

  void add_products(const TapStrips::Block& block, int64_t first, int64_t last, bool set,
                    const float* padded, float* gathered, const float* dy, float* sums) const {
    each_chunk(first, last, 1, strips_.stride, strips_.chunk_bytes,
               [&](int64_t begin, int64_t end) {
                 kernels_.gather({.origins = strips_.origins.data() + begin,
                                  .rows = end - begin,
                                  .runs = block.runs.data(),
                                  .run_count = static_cast<int64_t>(block.runs.size()),
                                  .step = g_.dilation,
                                  .row = strips_.stride},
                                 padded, gathered);
                 each_panel(kernels_, block.columns, [&](int64_t left, int64_t right) {
                   kernels_.multiply({.a = dy,
                                      .a_rows = gradient_rows_.data(),
                                      .a_steps = strips_.pixel_of.data() + begin * strips_.pixels,
                                      .b = gathered + left,
                                      .b_steps = strips_.part_at.data(),
                                      .rows = g_.outputs,
                                      .length = (end - begin) * strips_.pixels,
                                      .lanes = round_up(right - left, kernels_.width),
                                      .out = sums + block.begin + left,
                                      .out_row = strips_.sums,
                                      .adds = !set || begin != first});
                 });
               });
  }

  /// Adds the sums of an output over the pieces. They are read in the order of memory, since they
  /// come from the caches of other threads.
  void collect(float* sums, int64_t pieces, bool add, float* dweights) const {
    for (int64_t p = 1; p < pieces; ++p) {
      const float* const of_piece = sums + p * sums_;
      for (int64_t i = 0; i < strips_.sums; ++i) sums[i] += of_piece[i];
    }
    for (size_t t = 0; t < strips_.column_of.size(); ++t) {
      dweights[t] = (add ? dweights[t] : 0) + sums[strips_.column_of[t]];
    }
  }

  Im2colGeometry g_;
  const Im2colKernels& kernels_;
  TapStrips strips_;
  std::vector<int64_t> gradient_rows_;  // where those of each output begin
  int64_t sums_;                        // elements of the sums of a piece
  std::vector<double> bias_sums_;       // (piece, output)
};

std::string refusal(const ConvolutionProblem& problem, ConvolutionPass pass,
                    ConvolutionAlgorithm algorithm) {
  if (algorithm == ConvolutionAlgorithm::winograd) return "Winograd's algorithm is asked for";
  if (problem.source.count() == 0 || problem.target.count() == 0) return "it has no elements";
  if (padded_bytes(problem) > kMaxPaddedBytes) {
    return "the padded images of its threads would take too much memory";
  }
  if (problem.source_format != Format::contiguous || problem.target_format != Format::contiguous) {
    return "it takes and makes contiguous images";
  }
  if (pass == ConvolutionPass::backward_weights &&
      BackwardWeights::sums_bytes(problem) * omp_get_max_threads() > kMaxSumsBytes) {
    return "the sums of its threads would take too much memory";
  }
  return {};
}

std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                           ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return std::make_unique<Forward>(problem);
    case ConvolutionPass::backward_data:
      return std::make_unique<BackwardData>(problem);
    case ConvolutionPass::backward_weights:
      break;
  }
  return std::make_unique<BackwardWeights>(problem);
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> im2col_convolutions() {
  return make_library({"im2col", "3", name_of_simd, refusal, make});
}

}  // namespace crema
