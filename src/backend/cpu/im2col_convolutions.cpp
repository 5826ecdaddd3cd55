// The three passes of one image and group as products, with the taps of the kernels (channels *
// kernel...) and the output pixels:
//
//                     rows     columns  summed over  gathered matrix
//   forward           outputs  pixels   taps         right factor: a row a tap
//   backward data     taps     pixels   outputs      result, which is added to the image
//   backward weights  outputs  taps     pixels       right factor: a row a pixel
//
// The columns of a product are cut into panels of a few vectors. The rows of the gathered matrix
// are cut into chunks that stay in the first-level cache.
#include "backend/cpu/im2col_convolutions.hpp"

#include <omp.h>

#include <algorithm>

#include "backend/cpu/convolution_scratch.hpp"
#include "backend/cpu/im2col_kernels.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

/// The gathered rows that are multiplied at a time.
constexpr int64_t kChunkBytes = 24 << 10;
/// The most memory for the gradients of weights that each thread sums for itself, in all.
constexpr int64_t kMaxSumsBytes = int64_t{64} << 20;
/// The most memory for the padded image of a thread.
constexpr int64_t kMaxPaddedBytes = int64_t{16} << 20;

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/// Columns [begin, end) of a product.
struct Panel {
  int64_t begin, end;
  int64_t row;  // elements of a gathered row: end - begin in whole vectors
  std::vector<GatheredRun> runs;

  int64_t lanes() const { return end - begin; }
};

/// Cuts columns into panels of about the same number of vectors. origins: the place in the image of
/// each column; `adjacent` columns of a row of the image follow each other.
std::vector<Panel> make_panels(const Im2colKernels& kernels, const std::vector<int64_t>& origins,
                               int64_t adjacent) {
  const auto count = static_cast<int64_t>(origins.size());
  const int64_t width = kernels.width, most = kernels.lanes / width;
  const int64_t vectors = (count + width - 1) / width, panels = (vectors + most - 1) / most;
  std::vector<Panel> made;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t begin = vectors * p / panels * width;
    const int64_t end = std::min(vectors * (p + 1) / panels * width, count);
    Panel panel{begin, end, round_up(end - begin, width), {}};
    for (int64_t i = begin; i < end;) {
      const int64_t next = std::min(i / adjacent * adjacent + adjacent, end);
      panel.runs.push_back({origins[static_cast<size_t>(i)], i - begin, next - i});
      i = next;
    }
    made.push_back(std::move(panel));
  }
  return made;
}

int64_t widest(const std::vector<Panel>& panels) {
  int64_t row = 0;
  for (const Panel& panel : panels) row = std::max(row, panel.row);
  return row;
}

size_t bytes_of(const std::vector<Panel>& panels) {
  size_t bytes = 0;
  for (const Panel& panel : panels) bytes += panel.runs.size() * sizeof(GatheredRun);
  return bytes;
}

/// Calls body(begin, end) for chunks of the gathered rows [first, last) of the panel. A chunk has
/// whole units of rows.
template <class Body>
void each_chunk(const Panel& panel, int64_t first, int64_t last, int64_t unit, const Body& body) {
  const int64_t most = std::max<int64_t>(1, kChunkBytes / (panel.row * unit * 4));
  const int64_t units = (last - first) / unit, chunks = (units + most - 1) / most;
  for (int64_t c = 0; c < chunks; ++c) {
    body(first + units * c / chunks * unit, first + units * (c + 1) / chunks * unit);
  }
}

/// The most elements of a chunk.
int64_t chunk_count(const std::vector<Panel>& panels, int64_t unit) {
  return std::max(kChunkBytes / 4, widest(panels) * unit);
}

/// Where the elements of the images of a problem lie: of one group, with padding.
class Geometry {
 public:
  explicit Geometry(const ConvolutionProblem& p)
      : images(p.source[0] * p.groups),
        groups(p.groups),
        channels(p.source[1] / p.groups),
        outputs(p.target[1] / p.groups),
        kernel_width(p.kernel.back()),
        stride(p.stride.back()),
        dilation(p.dilation.back()),
        width_(p.source[-1]) {
    const int axes = p.source.rank() - 2;
    std::vector<int64_t> pitch(static_cast<size_t>(axes));  // of a padded plane
    for (int axis = axes - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      pitch[a] = plane_;
      plane_ *= p.source[axis + 2] + 2 * p.pad[a];
    }
    // The places of all positions of a box, the last axis innermost.
    const auto places = [&](int last, const auto& extent, const auto& step) {
      std::vector<int64_t> found = {0};
      for (int axis = 0; axis < last; ++axis) {
        const auto a = static_cast<size_t>(axis);
        std::vector<int64_t> finer;
        for (const int64_t place : found) {
          for (int64_t i = 0; i < extent(a); ++i) finer.push_back(place + i * step(a) * pitch[a]);
        }
        found = std::move(finer);
      }
      return found;
    };
    const auto source = [&](size_t a) { return p.source[static_cast<int>(a) + 2]; };
    rows_ = places(axes - 1, source, [](size_t) { return 1; });
    for (int64_t& row : rows_) {
      for (size_t a = 0; a < pitch.size(); ++a) row += p.pad[a] * pitch[a];
    }
    pixel_at = places(
        axes, [&](size_t a) { return p.target[static_cast<int>(a) + 2]; },
        [&](size_t a) { return p.stride[a]; });
    const std::vector<int64_t> kernel = places(
        axes, [&](size_t a) { return p.kernel[a]; }, [&](size_t a) { return p.dilation[a]; });
    for (int64_t c = 0; c < channels; ++c) {
      for (const int64_t place : kernel) tap_at.push_back(c * plane_ + place);
    }
  }

  int64_t pixels() const { return static_cast<int64_t>(pixel_at.size()); }
  int64_t taps() const { return static_cast<int64_t>(tap_at.size()); }
  int64_t weights() const { return outputs * taps(); }
  int64_t source() const { return channels * static_cast<int64_t>(rows_.size()) * width_; }
  int64_t target() const { return outputs * pixels(); }
  /// Elements of a padded image of one group.
  int64_t padded() const { return channels * plane_ + kGatherSlack; }

  void pad(const float* x, float* padded) const {
    if (channels * plane_ == source()) {
      std::copy_n(x, source(), padded);
      return;
    }
    std::fill_n(padded, channels * plane_, 0.0F);
    for (int64_t c = 0; c < channels; ++c) {
      for (const int64_t row : rows_) {
        std::copy_n(x, width_, padded + c * plane_ + row);
        x += width_;
      }
    }
  }

  void unpad(int64_t channel_begin, int64_t channel_end, const float* padded, float* dx) const {
    dx += channel_begin * static_cast<int64_t>(rows_.size()) * width_;
    for (int64_t c = channel_begin; c < channel_end; ++c) {
      for (const int64_t row : rows_) {
        dx = std::copy_n(padded + c * plane_ + row, width_, dx);
      }
    }
  }

  int64_t plane() const { return plane_; }
  size_t bytes() const {
    return (pixel_at.size() + tap_at.size() + rows_.size()) * sizeof(int64_t);
  }

  int64_t images, groups;                  // images: one for each group of each sample
  int64_t channels, outputs;               // of a group
  int64_t kernel_width, stride, dilation;  // of the last axis
  std::vector<int64_t> pixel_at;           // the first element that each output pixel reads
  std::vector<int64_t> tap_at;             // from there, the element for each tap

 private:
  int64_t width_;
  int64_t plane_ = 1;
  std::vector<int64_t> rows_;  // the place of each row of a channel in the padded plane
};

int64_t padded_bytes(const ConvolutionProblem& p) {
  int64_t bytes = p.source[1] / p.groups * static_cast<int64_t>(sizeof(float));
  for (size_t a = 0; a < p.pad.size(); ++a) {
    bytes *= p.source[static_cast<int>(a) + 2] + 2 * p.pad[a];
  }
  return bytes;
}

class Forward : public ConvolutionPrimitive {
 public:
  explicit Forward(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        panels_(make_panels(kernels_, g_.pixel_at, problem.target[-1])),
        adds_(problem.adds),
        relu_(problem.relu) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    const auto panels = static_cast<int64_t>(panels_.size());
    parallel_for(g_.images * panels, 1, [&](int64_t begin, int64_t end) {
      float* const padded = convolution_scratch(ConvolutionScratch::window, g_.padded());
      float* const gathered =
          convolution_scratch(ConvolutionScratch::partial, chunk_count(panels_, 1));
      int64_t known = -1;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / panels, group = image % g_.groups;
        if (image != known) g_.pad(x + image * g_.source(), padded);
        known = image;
        compute(panels_[static_cast<size_t>(i % panels)], padded, gathered,
                weights.values + group * g_.weights(), bias ? bias + group * g_.outputs : nullptr,
                y + image * g_.target());
      }
    });
  }

  size_t kept_bytes() const override { return g_.bytes() + bytes_of(panels_); }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t threads =
        std::min<int64_t>(plan.threads(), g_.images * static_cast<int64_t>(panels_.size()));
    need_scratch(plan, ConvolutionScratch::window, g_.padded(), threads);
    need_scratch(plan, ConvolutionScratch::partial, chunk_count(panels_, 1), threads);
  }

 private:
  void compute(const Panel& panel, const float* padded, float* gathered, const float* weights,
               const float* bias, float* y) const {
    each_chunk(panel, 0, g_.taps(), 1, [&](int64_t begin, int64_t end) {
      kernels_.gather({g_.tap_at.data() + begin, end - begin, panel.runs.data(),
                       static_cast<int64_t>(panel.runs.size()), g_.stride, panel.row},
                      padded, gathered);
      const bool first = begin == 0, last = end == g_.taps();
      kernels_.multiply({.a = weights + begin,
                         .a_row = g_.taps(),
                         .a_step = 1,
                         .b = gathered,
                         .b_row = panel.row,
                         .rows = g_.outputs,
                         .length = end - begin,
                         .lanes = panel.lanes(),
                         .out = y + panel.begin,
                         .out_row = g_.pixels(),
                         .bias = first ? bias : nullptr,
                         .adds = !first || adds_,
                         .relu = last && relu_.has_value(),
                         .slope = relu_.value_or(0)});
    });
  }

  Geometry g_;
  const Im2colKernels& kernels_;
  std::vector<Panel> panels_;
  bool adds_;
  std::optional<float> relu_;
};

class BackwardData : public ConvolutionPrimitive {
 public:
  explicit BackwardData(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        panels_(make_panels(kernels_, g_.pixel_at, problem.target[-1])) {}

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    // Of few images, each thread takes some of the channels.
    const int64_t parts = parts_for(omp_get_max_threads());
    parallel_for(g_.images * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / parts, part = i % parts;
        compute(g_.channels * part / parts, g_.channels * (part + 1) / parts,
                weights.values + image % g_.groups * g_.weights(), dy + image * g_.target(),
                dx + image * g_.source());
      }
    });
  }

  size_t kept_bytes() const override { return g_.bytes() + bytes_of(panels_); }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t threads =
        std::min<int64_t>(plan.threads(), g_.images * parts_for(plan.threads()));
    need_scratch(plan, ConvolutionScratch::window, g_.padded(), threads);
    need_scratch(plan, ConvolutionScratch::partial, chunk_count(panels_, kernel()), threads);
    need_scratch(plan, ConvolutionScratch::packed, packed_count(), threads);
  }

 private:
  /// Taps of a channel. The chunks have whole channels: then the order of the sums that make an
  /// element does not depend on the number of threads.
  int64_t kernel() const { return g_.taps() / g_.channels; }
  int64_t parts_for(int64_t threads) const {
    return std::min(g_.channels, (threads + g_.images - 1) / g_.images);
  }
  int64_t packed_count() const { return g_.outputs * widest(panels_); }

  void compute(int64_t channel_begin, int64_t channel_end, const float* weights, const float* dy,
               float* dx) const {
    float* const padded = convolution_scratch(ConvolutionScratch::window, g_.padded());
    float* const gathered =
        convolution_scratch(ConvolutionScratch::partial, chunk_count(panels_, kernel()));
    float* const packed = convolution_scratch(ConvolutionScratch::packed, packed_count());
    std::fill(padded + channel_begin * g_.plane(), padded + channel_end * g_.plane(), 0.0F);
    for (const Panel& panel : panels_) {
      // The product reads whole vectors, and dy may end within one.
      for (int64_t o = 0; o < g_.outputs; ++o) {
        std::copy_n(dy + o * g_.pixels() + panel.begin, panel.lanes(), packed + o * panel.row);
      }
      each_chunk(panel, channel_begin * kernel(), channel_end * kernel(), kernel(),
                 [&](int64_t begin, int64_t end) {
                   kernels_.multiply({.a = weights + begin,
                                      .a_row = 1,
                                      .a_step = g_.taps(),
                                      .b = packed,
                                      .b_row = panel.row,
                                      .rows = end - begin,
                                      .length = g_.outputs,
                                      .lanes = panel.row,
                                      .out = gathered,
                                      .out_row = panel.row});
                   kernels_.scatter({g_.tap_at.data() + begin, end - begin, panel.runs.data(),
                                     static_cast<int64_t>(panel.runs.size()), g_.stride, panel.row,
                                     g_.kernel_width},
                                    gathered, padded);
                 });
    }
    g_.unpad(channel_begin, channel_end, padded, dx);
  }

  Geometry g_;
  const Im2colKernels& kernels_;
  std::vector<Panel> panels_;
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  explicit BackwardWeights(const ConvolutionProblem& problem)
      : g_(problem),
        kernels_(im2col_kernels()),
        panels_(make_panels(kernels_, g_.tap_at, problem.kernel.back())),
        row_(round_up(g_.taps(), kernels_.width)),
        sums_(g_.groups * g_.outputs * row_) {}

  /// Bytes of the sums of one thread.
  static int64_t sums_bytes(const ConvolutionProblem& problem) {
    return problem.target[1] * round_up(problem.weights().count(1), im2col_kernels().width) *
           static_cast<int64_t>(sizeof(float));
  }

  size_t kept_bytes() const override { return g_.bytes() + bytes_of(panels_); }
  void plan_scratch(ScratchPlan& plan) const override {
    const int64_t pieces = pieces_for(plan.threads());
    need_scratch(plan, ConvolutionScratch::window, g_.padded(), pieces);
    need_scratch(plan, ConvolutionScratch::partial, chunk_count(panels_, 1), pieces);
    need_scratch(plan, ConvolutionScratch::sums, sums_ * pieces, 1);
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    const int64_t pieces = pieces_for(omp_get_max_threads()), outputs = g_.groups * g_.outputs;
    float* const sums = convolution_scratch(ConvolutionScratch::sums, pieces * sums_);
    bias_sums_.assign(static_cast<size_t>(dbias ? pieces * outputs : 0), 0);
    // Pieces are ranges of the pixels of all samples, numbered through.
    const int64_t pixels = samples() * g_.pixels();
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        compute(pixels * p / pieces, pixels * (p + 1) / pieces, x, dy, sums + p * sums_,
                dbias ? bias_sums_.data() + p * outputs : nullptr);
      }
    });
    parallel_for(outputs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        collect(sums + o * row_, pieces, add_weights, dweights + o * g_.taps());
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
  int64_t pieces_for(int64_t threads) const { return std::min(threads, samples() * g_.pixels()); }

  /// Sets sums (group, output, tap) to those over pixels [begin, end).
  void compute(int64_t begin, int64_t end, const float* x, const float* dy, float* sums,
               double* bias_sums) const {
    float* const padded = convolution_scratch(ConvolutionScratch::window, g_.padded());
    float* const gathered =
        convolution_scratch(ConvolutionScratch::partial, chunk_count(panels_, 1));
    for (int64_t group = 0; group < g_.groups; ++group) {
      for (int64_t at = begin; at < end;) {
        const int64_t image = at / g_.pixels() * g_.groups + group;
        const int64_t first = at % g_.pixels(), last = std::min(g_.pixels(), first + end - at);
        g_.pad(x + image * g_.source(), padded);
        const float* const of_image = dy + image * g_.target();
        for (const Panel& panel : panels_) {
          add_products(panel, first, last, at == begin, padded, gathered, of_image,
                       sums + group * g_.outputs * row_);
        }
        if (bias_sums != nullptr) {
          kernels_.add_row_sums(of_image + first, g_.outputs, last - first, g_.pixels(),
                                bias_sums + group * g_.outputs);
        }
        at += last - first;
      }
    }
  }

  void add_products(const Panel& panel, int64_t first, int64_t last, bool set, const float* padded,
                    float* gathered, const float* dy, float* sums) const {
    each_chunk(panel, first, last, 1, [&](int64_t begin, int64_t end) {
      kernels_.gather({g_.pixel_at.data() + begin, end - begin, panel.runs.data(),
                       static_cast<int64_t>(panel.runs.size()), g_.dilation, panel.row},
                      padded, gathered);
      kernels_.multiply({.a = dy + begin,
                         .a_row = g_.pixels(),
                         .a_step = 1,
                         .b = gathered,
                         .b_row = panel.row,
                         .rows = g_.outputs,
                         .length = end - begin,
                         .lanes = panel.row,
                         .out = sums + panel.begin,
                         .out_row = row_,
                         .adds = !set || begin != first});
    });
  }

  void collect(const float* sums, int64_t pieces, bool add, float* dweights) const {
    for (int64_t t = 0; t < g_.taps(); ++t) {
      float sum = add ? dweights[t] : 0;
      for (int64_t p = 0; p < pieces; ++p) sum += sums[p * sums_ + t];
      dweights[t] = sum;
    }
  }

  Geometry g_;
  const Im2colKernels& kernels_;
  std::vector<Panel> panels_;
  int64_t row_;                    // of the sums, in whole vectors
  int64_t sums_;                   // elements of the sums of a piece
  std::vector<double> bias_sums_;  // (piece, output)
};

}  // namespace

std::vector<std::string> Im2colConvolutions::implementations(const ConvolutionProblem& problem,
                                                             ConvolutionPass pass,
                                                             ConvolutionAlgorithm algorithm,
                                                             std::string& why) const {
  if (algorithm == ConvolutionAlgorithm::winograd) {
    why = "Winograd's algorithm is asked for";
  } else if (padded_bytes(problem) > kMaxPaddedBytes) {
    why = "the padded images of its threads would take too much memory";
  } else if (problem.source_format != Format::contiguous ||
             problem.target_format != Format::contiguous) {
    why = "it takes and makes contiguous images";
  } else if (pass == ConvolutionPass::backward_weights &&
             BackwardWeights::sums_bytes(problem) * omp_get_max_threads() > kMaxSumsBytes) {
    why = "the sums of its threads would take too much memory";
  } else {
    return {concat(to_string(simd_level()))};
  }
  return {};
}

std::unique_ptr<ConvolutionPrimitive> Im2colConvolutions::make(const ConvolutionProblem& problem,
                                                               ConvolutionPass pass,
                                                               const std::string&) const {
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

}  // namespace crema
