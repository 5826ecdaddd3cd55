// The three passes as products (rows x columns, summed over k) that DirectKernels compute:
//
//                     rows           columns             summed over
//   forward           output pixels  outputs             taps
//   backward data     output pixels  the taps of a run   outputs         added into the window
//   backward weights  taps           outputs             output pixels
//
// Rows and what is summed over are addressed by tables (DirectPlan); columns are packed into
// panels.
#include <omp.h>

#include <algorithm>
#include <sstream>

#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/direct_plan.hpp"
#include "backend/cpu/packed_weights.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"

namespace crema {
namespace {

/// A panel's rows that are summed over in one go: they stay in the first-level cache.
constexpr int64_t kChunkBytes = 20 << 10;
/// Gradients of weights are summed by each thread for itself, in at most so much memory.
constexpr int64_t kMaxSumsBytes = int64_t{64} << 20;

/// What is summed over in one go.
struct Chunk {
  int64_t first_offset, runs, length;  // offsets of its runs; elements of each
  int64_t first;                       // element, of all that are summed over
};

/// What is summed over: runs of elements that lie side by side, cut into chunks.
struct Summands {
  std::vector<int64_t> offsets;
  std::vector<Chunk> chunks;

  Summands(const std::vector<int64_t>& runs, int64_t length, int64_t most) {
    const int64_t joined = std::max<int64_t>(1, most / length);
    for (size_t r = 0; r < runs.size(); ++r) {
      const int64_t first = static_cast<int64_t>(r) * length;
      if (joined > 1) {
        if (static_cast<int64_t>(r) % joined == 0) {
          chunks.push_back({static_cast<int64_t>(offsets.size()), 0, length, first});
        }
        offsets.push_back(runs[r]);
        ++chunks.back().runs;
        continue;
      }
      const int64_t pieces = (length + most - 1) / most;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t begin = length * piece / pieces, end = length * (piece + 1) / pieces;
        chunks.push_back({static_cast<int64_t>(offsets.size()), 1, end - begin, first + begin});
        offsets.push_back(runs[r] + begin);
      }
    }
  }
};

int64_t widest(const std::vector<DirectPanel>& panels) {
  int vectors = 0;
  for (const DirectPanel& panel : panels) vectors = std::max(vectors, panel.vectors);
  return vectors;
}

int64_t vectors_of(int64_t lanes, const DirectKernels& kernels) {
  return (lanes + kernels.width - 1) / kernels.width;
}

/// Computes tiles for rows [0, count). start(first row) sets what belongs to the tile,
/// point(place in the tile, row) the pointers of a row.
template <class Start, class Point>
void sweep(const DirectKernels& kernels, int vectors, int64_t count, DirectTile& tile,
           const Start& start, const Point& point) {
  const int full = kernels.rows[vectors], half = full / 2;
  for (int64_t row = 0; row < count; row += tile.rows) {
    const int64_t left = count - row;
    const int rows = left <= half ? half : full;
    tile.rows = static_cast<int>(std::min<int64_t>(rows, left));
    start(row);
    for (int i = 0; i < rows; ++i) point(i, row + std::min(i, tile.rows - 1));
    (left <= half ? kernels.half_tile : kernels.tile)[vectors](tile);
  }
}

/// Says what bands need: copies of windows where there is padding, and `partial` floats beside.
void need_bands(ScratchPlan& scratch, const DirectPlan& plan, int64_t partial) {
  const int64_t threads = std::min<int64_t>(scratch.threads(), plan.batch * plan.target.h);
  if (plan.padded)
    need_scratch(scratch, ConvolutionScratch::window, plan.band_images * plan.window.image(),
                 threads);
  need_scratch(scratch, ConvolutionScratch::partial, partial, threads);
}

/// A name of the layout that a pass packs weights in. It depends on the taps, on their runs, and on
/// the panels that they are cut into.
std::string packed_form(const char* pass, const DirectPlan& plan,
                        const std::vector<DirectPanel>& panels) {
  std::ostringstream form;
  form << plan.kernels.width << ' ' << plan.target.channels << ' ' << plan.kernel_taps << ' '
       << plan.run_length;
  for (const int64_t tap : plan.plain_tap) form << ',' << tap;
  for (const DirectRun& run : plan.runs) form << ';' << run.first_tap;
  for (const DirectPanel& panel : panels) form << '|' << panel.offset << ' ' << panel.vectors;
  return concat("direct ", pass, " ", stream_id(form.str()));
}

std::vector<int64_t> offsets_of(const std::vector<DirectRun>& runs) {
  std::vector<int64_t> offsets;
  for (const DirectRun& run : runs) offsets.push_back(run.offset);
  return offsets;
}

class Forward : public ConvolutionPrimitive {
 public:
  Forward(const ConvolutionProblem& problem, const DirectKernels& kernels)
      : plan_(problem, kernels, false),
        vectors_(vectors_of(plan_.target.channels, kernels)),
        panels_(direct_panels(kernels, vectors_)),
        summands_(offsets_of(plan_.runs), plan_.run_length,
                  kChunkBytes / (widest(panels_) * kernels.width * 4)),
        adds_(problem.adds),
        relu_(problem.relu),
        weights_(packed_form("forward", plan_, panels_), taps_count() * vectors_ * kernels.width,
                 problem.training),
        bias_(Shape{vectors_ * kernels.width}) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    const float* const packed =
        weights_.get(weights, [&](const float* from, float* to) { pack(from, to); });
    if (bias != nullptr) std::copy_n(bias, plan_.target.channels, bias_.host_mut<float>());
    const float* const padded_bias = bias != nullptr ? bias_.host<float>() : nullptr;
    parallel_for(plan_.batch * plan_.target.h, 1, [&](int64_t begin, int64_t end) {
      plan_.each_band(begin, end, [&](const DirectBand& band) {
        compute(band, plan_.window_of(band, x), packed, padded_bias,
                y + band.image * plan_.target.image() + band.row * plan_.target.row());
      });
    });
  }

  size_t kept_bytes() const override { return weights_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    weights_.plan_scratch(plan);
    need_bands(plan, plan_, plan_.most_pixels() * widest(panels_) * plan_.kernels.width);
  }

 private:
  int64_t taps_count() const { return static_cast<int64_t>(plan_.plain_tap.size()); }

  /// [panel][tap][the panel's outputs]
  void pack(const float* weights, float* to) const {
    const int64_t taps = taps_count(), outputs = plan_.target.channels;
    parallel_for(static_cast<int64_t>(panels_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const DirectPanel& panel = panels_[static_cast<size_t>(i)];
        const int64_t lanes = panel.vectors * plan_.kernels.width;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t output = panel.offset + lane;
          const float* const from = weights + output * plan_.kernel_taps;
          float* const column = to + panel.offset * taps + lane;
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t plain = plan_.plain_tap[static_cast<size_t>(t)];
            column[t * lanes] = output < outputs && plain >= 0 ? from[plain] : 0;
          }
        }
      }
    });
  }

  void compute(const DirectBand& band, const float* window, const float* packed, const float* bias,
               float* y) const {
    const int64_t pixels = plan_.pixels(band), taps = taps_count(), width = plan_.kernels.width;
    const bool blocked = plan_.target.blocks > 1 || plan_.target.unit == width;
    const int64_t y_vector = blocked ? plan_.target.block() : width;
    const int64_t tail = plan_.target.channels - (vectors_ - 1) * width;
    float* const partial =
        convolution_scratch(ConvolutionScratch::partial, pixels * widest(panels_) * width);
    for (const DirectPanel& panel : panels_) {
      const int64_t lanes = panel.vectors * width;
      const bool last_panel = panel.first + panel.vectors == vectors_;
      for (size_t c = 0; c < summands_.chunks.size(); ++c) {
        const Chunk& chunk = summands_.chunks[c];
        const bool first = c == 0, last = c + 1 == summands_.chunks.size();
        DirectTile tile{
            .offsets = summands_.offsets.data() + chunk.first_offset,
            .runs = chunk.runs,
            .length = chunk.length,
            .step = 1,
            .b = packed + panel.offset * taps + chunk.first * lanes,
            .init_row = first ? 0 : lanes,
            .out_vector = last ? y_vector : width,
            .last_lanes = static_cast<int>(last && last_panel && !blocked ? tail : width),
            .add = false,
            .adds = last && adds_,
            .relu = last && relu_.has_value(),
            .slope = relu_.value_or(0)};
        const float* const first_init = bias != nullptr ? bias + panel.offset : nullptr;
        float* const to = y + panel.first * y_vector;
        sweep(
            plan_.kernels, panel.vectors, pixels, tile,
            [&](int64_t pixel) { tile.init = first ? first_init : partial + pixel * lanes; },
            [&](int i, int64_t pixel) {
              const auto p = static_cast<size_t>(pixel);
              tile.a[i] = window + plan_.source_at[p];
              tile.out[i] = last ? to + plan_.target_at[p] : partial + pixel * lanes;
            });
      }
    }
  }

  DirectPlan plan_;
  int64_t vectors_;
  std::vector<DirectPanel> panels_;
  Summands summands_;
  bool adds_;
  std::optional<float> relu_;
  PackedWeights weights_;
  Tensor bias_;  // padded to whole vectors
};

class BackwardData : public ConvolutionPrimitive {
 public:
  BackwardData(const ConvolutionProblem& problem, const DirectKernels& kernels)
      : plan_(problem, kernels, true),
        vectors_(vectors_of(plan_.run_length, kernels)),
        panels_(direct_panels(kernels, vectors_)),
        outputs_(plan_.target.blocks * plan_.target.unit),
        summands_(block_offsets(), plan_.target.unit,
                  kChunkBytes / (widest(panels_) * kernels.width * 4)),
        weights_(packed_form("backward", plan_, panels_),
                 static_cast<int64_t>(plan_.runs.size()) * vectors_ * kernels.width * outputs_,
                 problem.training) {}

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    const float* const packed =
        weights_.get(weights, [&](const float* from, float* to) { pack(from, to); });
    // What is read of one image is added to all over it: a thread works on whole images.
    parallel_for(plan_.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; image += plan_.band_images) {
        compute(image, std::min(plan_.band_images, end - image), packed, dy, dx);
      }
    });
  }

  size_t kept_bytes() const override { return weights_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    weights_.plan_scratch(plan);
    need_scratch(plan, ConvolutionScratch::window, window_count(),
                 std::min<int64_t>(plan.threads(), plan_.batch));
  }

 private:
  /// Floats of a window. The last vector of a run may reach beyond it, with zeros.
  int64_t window_count() const {
    return plan_.band_images * plan_.window.image() + vectors_ * plan_.kernels.width;
  }

  std::vector<int64_t> block_offsets() const {
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b < plan_.target.blocks; ++b) offsets.push_back(b * plan_.target.block());
    return offsets;
  }

  /// [run][panel][output][the panel's taps]
  void pack(const float* weights, float* to) const {
    const int64_t width = plan_.kernels.width;
    parallel_for(static_cast<int64_t>(plan_.runs.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t first_tap = plan_.runs[static_cast<size_t>(r)].first_tap;
        for (const DirectPanel& panel : panels_) {
          const int64_t lanes = panel.vectors * width;
          float* const from_panel = to + (r * vectors_ * width + panel.offset) * outputs_;
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const int64_t tap = panel.offset + lane;
            const int64_t plain =
                tap < plan_.run_length ? plan_.plain_tap[static_cast<size_t>(first_tap + tap)] : -1;
            for (int64_t o = 0; o < outputs_; ++o) {
              from_panel[o * lanes + lane] = plain >= 0 && o < plan_.target.channels
                                                 ? weights[o * plan_.kernel_taps + plain]
                                                 : 0;
            }
          }
        }
      }
    });
  }

  void compute(int64_t image, int64_t images, const float* packed, const float* dy,
               float* dx) const {
    float* const window = convolution_scratch(ConvolutionScratch::window, window_count());
    const int64_t unused = (plan_.band_images - images) * plan_.window.image();
    std::fill_n(window, window_count() - unused, 0.0F);
    plan_.each_band(image * plan_.target.h, (image + images) * plan_.target.h,
                    [&](const DirectBand& band) {
                      scatter(band, packed, plan_.target_of(band, dy),
                              window + (band.image - image) * plan_.window.image() +
                                  band.row * plan_.stride_h * plan_.window.row());
                    });
    plan_.unpad({image, images, 0, plan_.target.h}, window, dx);
  }

  void scatter(const DirectBand& band, const float* packed, const float* dy, float* window) const {
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    for (size_t r = 0; r < plan_.runs.size(); ++r) {
      for (const DirectPanel& panel : panels_) {
        const int64_t lanes = panel.vectors * width;
        const float* const b =
            packed + (static_cast<int64_t>(r) * vectors_ * width + panel.offset) * outputs_;
        float* const to = window + plan_.runs[r].offset + panel.offset;
        for (const Chunk& chunk : summands_.chunks) {
          DirectTile tile{.offsets = summands_.offsets.data() + chunk.first_offset,
                          .runs = chunk.runs,
                          .length = chunk.length,
                          .b = b + chunk.first * lanes,
                          .add = true};
          sweep(
              plan_.kernels, panel.vectors, pixels, tile, [](int64_t) {},
              [&](int i, int64_t pixel) {
                const auto p = static_cast<size_t>(pixel);
                tile.a[i] = dy + plan_.target_at[p];
                tile.out[i] = to + plan_.source_at[p];
              });
        }
      }
    }
  }

  DirectPlan plan_;
  int64_t vectors_;  // of a run
  std::vector<DirectPanel> panels_;
  int64_t outputs_;  // padding of blocks included
  Summands summands_;
  PackedWeights weights_;
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  BackwardWeights(const ConvolutionProblem& problem, const DirectKernels& kernels)
      : plan_(problem, kernels, false),
        vectors_(vectors_of(plan_.target.channels, kernels)),
        panels_(direct_panels(kernels, vectors_)),
        taps_(static_cast<int64_t>(plan_.plain_tap.size())),
        sums_(vectors_ * kernels.width * taps_) {
    for (size_t t = 0; t < plan_.plain_tap.size(); ++t) {
      const auto run = t / static_cast<size_t>(plan_.run_length);
      tap_offsets_.push_back(plan_.runs[run].offset + static_cast<int64_t>(t) % plan_.run_length);
    }
  }

  /// Bytes of the sums that each thread makes.
  static int64_t sums_bytes(const ConvolutionProblem& problem, const DirectKernels& kernels) {
    const DirectLayout source(problem.source[1], problem.source_format, 1, 1);
    return vectors_of(problem.target[1], kernels) * kernels.width * source.blocks * source.unit *
           problem.weights().count(2) * static_cast<int64_t>(sizeof(float));
  }

  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t width = plan_.kernels.width;
    need_bands(plan, plan_, (plan_.most_pixels() + 1) * vectors_ * width);
    need_scratch(plan, ConvolutionScratch::sums, sums_,
                 std::min<int64_t>(plan.threads(), plan_.batch * plan_.target.h));
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    const int64_t rows = plan_.batch * plan_.target.h;
    const int64_t pieces = std::min<int64_t>(omp_get_max_threads(), rows);
    const int64_t width = plan_.kernels.width, channels = vectors_ * width;
    float* const sums = convolution_scratch(ConvolutionScratch::sums, pieces * sums_);
    bias_sums_.assign(static_cast<size_t>(pieces * channels), 0);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        bool first = true;
        plan_.each_band(rows * piece / pieces, rows * (piece + 1) / pieces,
                        [&](const DirectBand& band) {
                          compute(band, plan_.window_of(band, x), plan_.target_of(band, dy), first,
                                  sums + piece * sums_, bias_sums_.data() + piece * channels);
                          first = false;
                        });
      }
    });
    collect(sums, pieces, add_weights, dweights);
    if (dbias == nullptr) return;
    for (int64_t o = 0; o < plan_.target.channels; ++o) {
      double sum = add_bias ? static_cast<double>(dbias[o]) : 0;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        sum += bias_sums_[static_cast<size_t>(piece * channels + o)];
      }
      dbias[o] = static_cast<float>(sum);
    }
  }

 private:
  /// Adds the band's products to sums [panel][tap][the panel's outputs], or sets them.
  void compute(const DirectBand& band, const float* window, const float* dy, bool first,
               float* sums, double* bias_sums) const {
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    float* const packed =
        convolution_scratch(ConvolutionScratch::partial, (pixels + 1) * vectors_ * width);
    float* const band_sums = packed + pixels * vectors_ * width;
    std::fill_n(band_sums, vectors_ * width, 0.0F);
    pack(band, dy, packed, band_sums);
    for (int64_t o = 0; o < vectors_ * width; ++o)
      bias_sums[o] += static_cast<double>(band_sums[o]);
    for (const DirectPanel& panel : panels_) {
      const int64_t lanes = panel.vectors * width;
      float* const to = sums + panel.offset * taps_;
      DirectTile tile{.offsets = plan_.row_at.data(),
                      .runs = band.images * band.rows,
                      .length = plan_.target.w,
                      .step = plan_.stride_w * plan_.window.unit,
                      .b = packed + panel.offset * pixels,
                      .init_row = lanes,
                      .out_vector = width,
                      .last_lanes = static_cast<int>(width)};
      sweep(
          plan_.kernels, panel.vectors, taps_, tile,
          [&](int64_t tap) { tile.init = first ? nullptr : to + tap * lanes; },
          [&](int i, int64_t tap) {
            tile.a[i] = window + tap_offsets_[static_cast<size_t>(tap)];
            tile.out[i] = to + tap * lanes;
          });
    }
  }

  /// The band's dy as [panel][pixel][the panel's outputs], and its sums over the pixels.
  void pack(const DirectBand& band, const float* dy, float* to, float* band_sums) const {
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    const DirectLayout& target = plan_.target;
    for (const DirectPanel& panel : panels_) {
      const int64_t lanes = panel.vectors * width;
      for (int64_t v = 0; v < panel.vectors; ++v) {
        const int64_t channel = panel.offset + v * width;
        const int64_t block = channel / target.unit, within = channel % target.unit;
        const auto wanted = static_cast<int>(std::min(width, target.unit - within));
        for (int64_t image = 0; image < band.images; ++image) {
          const int64_t an_image = pixels / band.images;
          plan_.kernels.pack(dy + image * target.image() + block * target.block() + within,
                             target.unit, an_image, wanted,
                             to + panel.offset * pixels + image * an_image * lanes + v * width,
                             lanes, band_sums + channel);
        }
      }
    }
  }

  /// Adds up what the pieces made, in the weights' plain order.
  void collect(const float* sums, int64_t pieces, bool add, float* dweights) const {
    parallel_for(static_cast<int64_t>(panels_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const DirectPanel& panel = panels_[static_cast<size_t>(i)];
        const int64_t lanes = panel.vectors * plan_.kernels.width;
        const int64_t wanted = std::min(lanes, plan_.target.channels - panel.offset);
        for (int64_t lane = 0; lane < wanted; ++lane) {
          float* const to = dweights + (panel.offset + lane) * plan_.kernel_taps;
          const float* const from = sums + panel.offset * taps_ + lane;
          for (int64_t t = 0; t < taps_; ++t) {
            const int64_t plain = plan_.plain_tap[static_cast<size_t>(t)];
            if (plain < 0) continue;
            float sum = from[t * lanes];
            for (int64_t piece = 1; piece < pieces; ++piece) sum += from[piece * sums_ + t * lanes];
            to[plain] = add ? to[plain] + sum : sum;
          }
        }
      }
    });
  }

  DirectPlan plan_;
  int64_t vectors_;
  std::vector<DirectPanel> panels_;
  int64_t taps_, sums_;
  std::vector<int64_t> tap_offsets_;
  std::vector<double> bias_sums_;  // [piece][output]
};

std::string refusal(const ConvolutionProblem& problem, ConvolutionPass pass,
                    ConvolutionAlgorithm algorithm) {
  const DirectKernels& kernels = direct_kernels();
  const Format target = problem.target_format;
  if (simd_level() < SimdLevel::avx2) return "the processor lacks AVX2 and FMA";
  if (algorithm == ConvolutionAlgorithm::winograd) return "Winograd's algorithm is asked for";
  if (problem.kernel.empty() || problem.kernel.size() > 2)
    return "it takes one or two spatial axes";
  if (problem.groups != 1) return "it takes one group";
  if (target != Format::channels_last && block_of(target) != kernels.width) {
    return concat("it makes results channels_last or in blocks of ", kernels.width);
  }
  if (pass == ConvolutionPass::backward_weights &&
      BackwardWeights::sums_bytes(problem, kernels) * omp_get_max_threads() > kMaxSumsBytes) {
    return "the sums of its threads would take too much memory";
  }
  return {};
}

std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                           ConvolutionPass pass) {
  const DirectKernels& kernels = direct_kernels();
  switch (pass) {
    case ConvolutionPass::forward:
      return std::make_unique<Forward>(problem, kernels);
    case ConvolutionPass::backward_data:
      return std::make_unique<BackwardData>(problem, kernels);
    case ConvolutionPass::backward_weights:
      break;
  }
  return std::make_unique<BackwardWeights>(problem, kernels);
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> direct_convolutions() {
  return make_library({"direct", "2", concat(to_string(simd_level())), refusal, make});
}

}  // namespace crema
