// The three passes as products (rows x columns, summed over k) that DirectKernels compute:
//
//                     rows           columns                  summed over
//   forward           output pixels  outputs                  taps and channels
//   backward data     input pixels   channels                 turned taps and outputs
//   backward weights  taps           outputs                  output pixels
//
// Rows and what is summed over are addressed by tables (DirectPlan); columns are packed into
// panels. A band of pixels sums over one chunk of channels after the other, whose window stays in
// the second-level cache while all panels pass by.
#include <omp.h>

#include <algorithm>
#include <limits>
#include <span>
#include <sstream>

#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/direct_plan.hpp"
#include "backend/cpu/packed_weights.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

/// A panel's rows that are summed over in one go. Somewhat more than the first-level cache: they
/// stream from the second, and sums move less often.
constexpr int64_t kPieceBytes = 40 << 10;
/// Pixels of a band: enough to use what was loaded of the weights many times.
constexpr int64_t kBandPixels = 512;
/// Likewise where pixels are summed over. The sums move once for each band.
constexpr int64_t kGradientBandPixels = 1024;
/// Gradients of weights are summed in at most so much memory.
constexpr int64_t kMaxSumsBytes = int64_t{64} << 20;

/// What is summed over in one go.
struct Piece {
  int64_t first_offset, runs, length;  // offsets of its runs; elements of each
  int64_t first;                       // element, of all that are summed over
};

/// Runs of elements that lie side by side, cut into pieces.
struct Summands {
  std::vector<int64_t> offsets;
  std::vector<Piece> pieces;

  Summands() = default;
  Summands(const int64_t* runs, int64_t count, int64_t length, int64_t most) {
    const int64_t parts = (length + most - 1) / most;
    const int64_t groups = (count * length + most - 1) / most;
    const int64_t joined = (count + groups - 1) / groups;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t first = r * length;
      if (parts == 1) {
        if (r % joined == 0) {
          pieces.push_back({static_cast<int64_t>(offsets.size()), 0, length, first});
        }
        offsets.push_back(runs[r]);
        ++pieces.back().runs;
        continue;
      }
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = length * part / parts, end = length * (part + 1) / parts;
        pieces.push_back({static_cast<int64_t>(offsets.size()), 1, end - begin, first + begin});
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

/// Computes tiles for rows [0, count). point(place in the tile, row) sets the pointers of a row.
template <class Point>
void sweep(const DirectKernels& kernels, int vectors, int64_t count, DirectTile& tile,
           const Point& point) {
  const int full = kernels.rows[vectors], half = full / 2;
  for (int64_t row = 0; row < count; row += tile.rows) {
    const int64_t left = count - row;
    const int rows = left <= half ? half : full;
    tile.rows = static_cast<int>(std::min<int64_t>(rows, left));
    for (int i = 0; i < rows; ++i) point(i, row + std::min(i, tile.rows - 1));
    (left <= half ? kernels.half_tile : kernels.tile)[vectors](tile);
  }
}

/// A part of a product that one thread computes.
struct Part {
  int64_t begin, end;  // rows of pixels
  std::span<const DirectPanel> panels;
};

Part part_of(const DirectPlan& plan, const std::vector<DirectPanel>& panels,
             const DirectSplit& split, int64_t number) {
  const int64_t row = number / split.panels, panel = number % split.panels;
  const auto count = std::ssize(panels);
  const int64_t first = count * panel / split.panels, last = count * (panel + 1) / split.panels;
  return {plan.rows() * row / split.rows, plan.rows() * (row + 1) / split.rows,
          std::span(panels).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first))};
}

/// The split for a number of threads, found once.
class Splitter {
 public:
  explicit Splitter(int64_t most_rows = std::numeric_limits<int64_t>::max())
      : most_rows_(most_rows) {}

  DirectSplit of(const DirectPlan& plan, const std::vector<DirectPanel>& panels, int threads) {
    if (threads != threads_) {
      split_ = direct_split(plan.product, panels, plan.kernels.width, threads, most_rows_);
      threads_ = threads;
    }
    return split_;
  }

 private:
  int64_t most_rows_;
  int threads_ = 0;
  DirectSplit split_;
};

/// A name of the layout in which weights are packed. It depends on the taps, their order, and the
/// panels that they are cut into.
std::string packed_form(const char* pass, const DirectProduct& p, const DirectKernels& kernels,
                        const std::vector<DirectPanel>& panels) {
  std::ostringstream form;
  form << "direct " << pass << ' ' << kernels.width << ' ' << p.target.channels << ' '
       << p.source.channels << ' ' << p.source.unit << ' ' << p.kernel_w << ' ' << p.kernel_taps;
  for (const DirectAxis& axis : {p.h, p.w})
    form << ' ' << axis.taps << '+' << axis.first_tap << '+' << axis.tap_step;
  form << ' ' << panels.front().vectors;
  return form.str();
}

/// Pixels times channels of the target, summed over taps and channels of the source.
class Product {
 public:
  Product(const char* pass, const DirectProduct& product, const DirectKernels& kernels,
          bool training)
      : plan_(product, kernels, kBandPixels),
        vectors_(vectors_of(product.target.channels, kernels)),
        panels_(direct_panels(kernels, vectors_)),
        weights_(packed_form(pass, product, kernels, panels_),
                 product.taps() * vectors_ * kernels.width, training) {
    const int64_t most = kPieceBytes / (widest(panels_) * kernels.width * 4);
    const int64_t block_runs = std::ssize(plan_.runs) / plan_.chunk_blocks;
    whole_ = Summands(plan_.runs.data(), std::ssize(plan_.runs), plan_.run_length, most);
    last_ = Summands(plan_.runs.data(), block_runs * plan_.blocks_of(plan_.chunks() - 1),
                     plan_.run_length, most);
  }

  /// `bias`: whole vectors, or null.
  void compute(const float* x, const ConvolutionWeights& weights, const float* bias, bool adds,
               std::optional<float> relu, float* y) {
    const float* const packed = weights_.get(weights, [&](const float* from, float* to) {
      pack_direct_weights(plan_.product, plan_.kernels, panels_, from, to);
    });
    const DirectSplit split = splitter_.of(plan_, panels_, omp_get_max_threads());
    parallel_for(split.rows * split.panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const Part part = part_of(plan_, panels_, split, k);
        plan_.each_band(part.begin, part.end, [&](const DirectBand& band) {
          for (int64_t chunk = 0; chunk < plan_.chunks(); ++chunk)
            add_chunk(band, chunk, part, x, packed, bias, adds, relu, y + plan_.target_of(band));
        });
      }
    });
  }

  int64_t vectors() const { return vectors_; }
  size_t kept_bytes() const { return weights_.bytes() + plan_.table_bytes(); }
  void plan_scratch(ScratchPlan& scratch) const {
    const DirectSplit split = Splitter().of(plan_, panels_, scratch.threads());
    weights_.plan_scratch(scratch);
    need_scratch(scratch, ConvolutionScratch::brick,
                 direct_brick(plan_.product, plan_.kernels.width),
                 std::min<int64_t>(scratch.threads(), vectors_));
    need_scratch(scratch, ConvolutionScratch::window, plan_.window_count(),
                 split.rows * split.panels);
  }

 private:
  void add_chunk(const DirectBand& band, int64_t chunk, const Part& part, const float* x,
                 const float* packed, const float* bias, bool adds, std::optional<float> relu,
                 float* y) const {
    const DirectProduct& p = plan_.product;
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    const float* const window = plan_.window_of(band, chunk, x);
    const bool blocked = p.target.blocks > 1 || p.target.unit == width;
    const int64_t y_vector = blocked ? p.target.block() : width;
    const int64_t tail = p.target.channels - (vectors_ - 1) * width;
    const bool last_chunk = chunk + 1 == plan_.chunks();
    const Summands& summands = last_chunk ? last_ : whole_;
    const int64_t first_tap = chunk * plan_.chunk_blocks * p.block_taps();
    for (const DirectPanel& panel : part.panels) {
      const int64_t lanes = panel.vectors * width;
      const bool last_panel = panel.first + panel.vectors == vectors_;
      const float* const b = packed + panel.first * width * p.taps() + first_tap * lanes;
      float* const to = y + panel.first * y_vector;
      for (const Piece& piece : summands.pieces) {
        const bool first = chunk == 0 && piece.first == 0;
        const bool last = last_chunk && &piece == &summands.pieces.back();
        DirectTile tile{.offsets = summands.offsets.data() + piece.first_offset,
                        .runs = piece.runs,
                        .length = piece.length,
                        .step = 1,
                        .b = b + piece.first * lanes,
                        .bias = first && bias != nullptr ? bias + panel.first * width : nullptr,
                        .out_vector = y_vector,
                        .last_lanes = static_cast<int>(last_panel && !blocked ? tail : width),
                        .adds = !first || adds,
                        .relu = last && relu.has_value(),
                        .slope = relu.value_or(0)};
        sweep(plan_.kernels, panel.vectors, pixels, tile, [&](int i, int64_t pixel) {
          const auto at = static_cast<size_t>(pixel);
          tile.a[i] = window + plan_.source_at[at];
          tile.out[i] = to + plan_.target_at[at];
        });
      }
    }
  }

  DirectPlan plan_;
  int64_t vectors_;
  std::vector<DirectPanel> panels_;
  Summands whole_, last_;  // of a chunk, and of the last one
  Splitter splitter_;
  PackedWeights weights_;
};

class Forward : public ConvolutionPrimitive {
 public:
  Forward(const ConvolutionProblem& problem, const DirectKernels& kernels)
      : product_("forward", direct_forward(problem), kernels, problem.training),
        outputs_(problem.target[1]),
        adds_(problem.adds),
        relu_(problem.relu),
        bias_(Shape{product_.vectors() * kernels.width}) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    if (bias != nullptr) std::copy_n(bias, outputs_, bias_.change<float>());
    product_.compute(x, weights, bias != nullptr ? bias_.read<float>() : nullptr, adds_, relu_, y);
  }
  size_t kept_bytes() const override { return product_.kept_bytes(); }
  void plan_scratch(ScratchPlan& plan) const override { product_.plan_scratch(plan); }

 private:
  Product product_;
  int64_t outputs_;
  bool adds_;
  std::optional<float> relu_;
  Tensor bias_;  // padded to whole vectors
};

class BackwardData : public ConvolutionPrimitive {
 public:
  BackwardData(const ConvolutionProblem& problem, const DirectKernels& kernels) {
    for (const DirectProduct& product : direct_backward(problem)) {
      if (product.taps() == 0) {
        zeros_.push_back(product);
      } else {
        products_.push_back(
            std::make_unique<Product>("backward", product, kernels, problem.training));
      }
    }
  }

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    for (const auto& product : products_)
      product->compute(dy, weights, nullptr, false, std::nullopt, dx);
    for (const DirectProduct& product : zeros_) clear(product, dx);
  }
  size_t kept_bytes() const override {
    size_t bytes = 0;
    for (const auto& product : products_) bytes += product->kept_bytes();
    return bytes;
  }
  void plan_scratch(ScratchPlan& plan) const override {
    for (const auto& product : products_) product->plan_scratch(plan);
  }

 private:
  /// Writes zeros to the pixels of a product without taps.
  static void clear(const DirectProduct& p, float* dx) {
    const DirectLayout& target = p.target;
    parallel_for(p.batch * target.blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        for (int64_t h = 0; h < p.h.pixels; ++h) {
          float* const row =
              dx + plane * target.block() + (p.h.first + h * p.h.step) * target.row();
          for (int64_t w = 0; w < p.w.pixels; ++w)
            std::fill_n(row + (p.w.first + w * p.w.step) * target.unit, target.unit, 0.0F);
        }
      }
    });
  }

  std::vector<std::unique_ptr<Product>> products_;
  std::vector<DirectProduct> zeros_;  // without taps
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  BackwardWeights(const ConvolutionProblem& problem, const DirectKernels& kernels)
      : plan_(direct_forward(problem), kernels, kGradientBandPixels),
        vectors_(vectors_of(plan_.product.target.channels, kernels)),
        panels_(direct_panels(kernels, vectors_)),
        taps_(plan_.product.taps()),
        sums_(vectors_ * kernels.width * taps_),
        splitter_(most_row_parts()) {
    const int64_t block_taps = plan_.product.block_taps();
    const int64_t runs = std::ssize(plan_.runs) / plan_.chunk_blocks;
    for (int64_t block = 0; block < plan_.chunk_blocks; ++block) {
      for (int64_t t = 0; t < block_taps; ++t) {
        tap_offsets_.push_back(
            plan_.runs[static_cast<size_t>(block * runs + t / plan_.run_length)] +
            t % plan_.run_length);
      }
    }
    const int64_t most = kPieceBytes / (widest(panels_) * kernels.width * 4);
    piece_rows_ = std::clamp<int64_t>(most / plan_.product.w.pixels, 1, std::ssize(plan_.row_at));
  }

  /// Bytes of the sums of one part.
  static int64_t sums_bytes(const ConvolutionProblem& problem, const DirectKernels& kernels) {
    const DirectLayout source(problem.source[1], problem.source_format, 1, 1);
    return vectors_of(problem.target[1], kernels) * kernels.width * source.blocks * source.unit *
           problem.weights().count(2) * static_cast<int64_t>(sizeof(float));
  }

  size_t kept_bytes() const override {
    return plan_.table_bytes() + tap_offsets_.capacity() * sizeof(int64_t) +
           bias_sums_.capacity() * sizeof(double);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    const DirectSplit split = Splitter(most_row_parts()).of(plan_, panels_, plan.threads());
    const int64_t width = plan_.kernels.width, parts = split.rows * split.panels;
    int64_t vectors = 0, pixels = 0;
    for (int64_t k = 0; k < parts; ++k) {
      const Part part = part_of(plan_, panels_, split, k);
      vectors = std::max(vectors, vectors_in(part));
      pixels = std::max(pixels, (part.end - part.begin) * plan_.product.w.pixels);
    }
    pixels = std::min(pixels, plan_.most_pixels());
    need_scratch(plan, ConvolutionScratch::window, plan_.window_count(), parts);
    need_scratch(plan, ConvolutionScratch::partial, (pixels + 1) * vectors * width, parts);
    need_scratch(plan, ConvolutionScratch::brick,
                 2 * direct_brick(plan_.product, plan_.kernels.width),
                 std::min<int64_t>(plan.threads(), vectors_));
    need_scratch(plan, ConvolutionScratch::sums, split.rows * sums_, 1);
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    const DirectSplit split = splitter_.of(plan_, panels_, omp_get_max_threads());
    const int64_t width = plan_.kernels.width, channels = vectors_ * width;
    float* const sums = convolution_scratch(ConvolutionScratch::sums, split.rows * sums_);
    bias_sums_.assign(static_cast<size_t>(split.rows * channels), 0);
    parallel_for(split.rows * split.panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const Part part = part_of(plan_, panels_, split, k);
        const int64_t row = k / split.panels;
        plan_.each_band(part.begin, part.end, [&](const DirectBand& band) {
          add_band(band, part, x, dy + plan_.target_of(band), sums + row * sums_,
                   bias_sums_.data() + row * channels);
        });
      }
    });
    unpack_direct_weights(plan_.product, plan_.kernels, panels_, sums, split.rows, add_weights,
                          dweights);
    if (dbias == nullptr) return;
    for (int64_t o = 0; o < plan_.product.target.channels; ++o) {
      double sum = add_bias ? static_cast<double>(dbias[o]) : 0;
      for (int64_t row = 0; row < split.rows; ++row)
        sum += bias_sums_[static_cast<size_t>(row * channels + o)];
      dbias[o] = static_cast<float>(sum);
    }
  }

 private:
  int64_t most_row_parts() const {
    const int64_t bytes = sums_ * static_cast<int64_t>(sizeof(float));
    return std::max<int64_t>(1, kMaxSumsBytes / bytes);
  }

  static int64_t vectors_in(const Part& part) {
    return part.panels.back().first + part.panels.back().vectors - part.panels.front().first;
  }

  /// Adds the band's products to sums [panel][tap][the panel's outputs]; the part's first band sets
  /// them.
  void add_band(const DirectBand& band, const Part& part, const float* x, const float* dy,
                float* sums, double* bias_sums) const {
    const DirectProduct& p = plan_.product;
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    const int64_t rows = band.images * band.rows;
    const bool first_band = band.image * p.h.pixels + band.row == part.begin;
    const int64_t first_vector = part.panels.front().first;
    const int64_t vectors = vectors_in(part);
    float* const packed =
        convolution_scratch(ConvolutionScratch::partial, (pixels + 1) * vectors * width);
    float* const band_sums = packed + pixels * vectors * width;
    std::fill_n(band_sums, vectors * width, 0.0F);
    pack(band, part, dy, packed, band_sums);
    for (int64_t o = 0; o < vectors * width; ++o)
      bias_sums[first_vector * width + o] += static_cast<double>(band_sums[o]);
    for (int64_t chunk = 0; chunk < plan_.chunks(); ++chunk) {
      const float* const window = plan_.window_of(band, chunk, x);
      const int64_t taps = plan_.blocks_of(chunk) * p.block_taps();
      const int64_t first_tap = chunk * plan_.chunk_blocks * p.block_taps();
      for (const DirectPanel& panel : part.panels) {
        const int64_t lanes = panel.vectors * width;
        float* const to = sums + panel.first * width * taps_ + first_tap * lanes;
        const float* const b = packed + (panel.first - first_vector) * width * pixels;
        for (int64_t row = 0; row < rows; row += piece_rows_) {
          DirectTile tile{.offsets = plan_.row_at.data() + row,
                          .runs = std::min(piece_rows_, rows - row),
                          .length = p.w.pixels,
                          .step = p.w.stride * p.source.unit,
                          .b = b + row * p.w.pixels * lanes,
                          .out_vector = width,
                          .last_lanes = static_cast<int>(width),
                          .adds = !first_band || row > 0};
          sweep(plan_.kernels, panel.vectors, taps, tile, [&](int i, int64_t tap) {
            tile.a[i] = window + tap_offsets_[static_cast<size_t>(tap)];
            tile.out[i] = to + tap * lanes;
          });
        }
      }
    }
  }

  /// The band's dy as [panel][pixel][the panel's outputs], and its sums over the pixels.
  void pack(const DirectBand& band, const Part& part, const float* dy, float* to,
            float* band_sums) const {
    const int64_t pixels = plan_.pixels(band), width = plan_.kernels.width;
    const int64_t first_vector = part.panels.front().first;
    const DirectLayout& target = plan_.product.target;
    for (const DirectPanel& panel : part.panels) {
      const int64_t lanes = panel.vectors * width;
      float* const panel_to = to + (panel.first - first_vector) * width * pixels;
      for (int64_t v = 0; v < panel.vectors; ++v) {
        const int64_t channel = (panel.first + v) * width;
        const int64_t block = channel / target.unit, within = channel % target.unit;
        const auto wanted = static_cast<int>(std::min(width, target.unit - within));
        for (int64_t image = 0; image < band.images; ++image) {
          const int64_t an_image = pixels / band.images;
          plan_.kernels.pack(dy + image * target.image() + block * target.block() + within,
                             target.unit, an_image, wanted,
                             panel_to + image * an_image * lanes + v * width, lanes,
                             band_sums + channel - first_vector * width);
        }
      }
    }
  }

  DirectPlan plan_;
  int64_t vectors_;
  std::vector<DirectPanel> panels_;
  int64_t taps_, sums_;
  std::vector<int64_t> tap_offsets_;  // of a chunk, in the window
  int64_t piece_rows_;
  Splitter splitter_;
  std::vector<double> bias_sums_;  // [row part][output]
};

// Backward data makes one product for each residue of the pixels modulo the stride. Beyond this
// many, planning them takes too long.
constexpr int64_t kMostResidues = 1024;
int64_t residues(const ConvolutionProblem& problem) {
  int64_t count = 1;
  for (const int64_t stride : problem.stride) count *= std::min(stride, kMostResidues + 1);
  return count;
}

std::string refusal(const ConvolutionProblem& problem, ConvolutionPass pass,
                    ConvolutionAlgorithm algorithm) {
  const DirectKernels& kernels = direct_kernels();
  const Format made =
      pass == ConvolutionPass::backward_data ? problem.source_format : problem.target_format;
  if (simd_level() < SimdLevel::avx2) return "the processor lacks AVX2 and FMA";
  if (algorithm == ConvolutionAlgorithm::winograd) return "Winograd's algorithm is asked for";
  if (problem.kernel.empty() || problem.kernel.size() > 2)
    return "it takes one or two spatial axes";
  if (problem.groups != 1) return "it takes one group";
  if (made != Format::channels_last && block_of(made) != kernels.width) {
    return text("it makes results channels_last or in blocks of ", kernels.width);
  }
  if (pass == ConvolutionPass::backward_weights &&
      BackwardWeights::sums_bytes(problem, kernels) > kMaxSumsBytes) {
    return "its sums would take too much memory";
  }
  if (pass == ConvolutionPass::backward_data && residues(problem) > kMostResidues) {
    return "its stride leaves too many residues of pixels, each of which is a product of its own";
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
  return make_library({"direct", "3", name_of_simd, refusal, make});
}

}  // namespace crema
