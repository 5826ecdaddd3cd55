#include "backend/cpu/winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/winograd_kernels.hpp"
#include "core/cache_size.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

constexpr int kComponents = 36;
constexpr int kTileSum = 6 * 1 + 1;
// Tiles are worked on in batches whose transformed input and output stay in the last-level cache.
constexpr int64_t kBatchBytes = 12 << 20;
// Or, where that is possible, in so many tiles that they stay in a core's own cache.
constexpr int64_t kLeastOwnTiles = 24, kMostOwnTiles = 64;

int64_t blocks_of(int64_t channels, int block) { return (channels + block - 1) / block; }

/// Splits all tiles into batches of equal size (but the last), a multiple of `step`.
struct Batches {
  int64_t tiles, size, count;

  Batches(int64_t all, int64_t bytes_a_tile, int64_t step) : tiles(all) {
    const int64_t fit = std::max<int64_t>(step, kBatchBytes / bytes_a_tile);
    count = (all + fit - 1) / fit;
    size = ((all + count - 1) / count + step - 1) / step * step;
    count = (all + size - 1) / size;
  }
  int64_t first(int64_t batch) const { return batch * size; }
  int64_t length(int64_t batch) const { return std::min(size, tiles - batch * size); }
};

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Memory that all Winograd convolutions of a thread share: none lives beyond a pass.
struct Scratch {
  Tensor tiles_in, tiles_out, weights;
};

Scratch& thread_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

float* at_least(Tensor& tensor, int64_t count) {
  if (tensor.count() < count) tensor = Tensor(Shape{count});
  return tensor.host_overwrite<float>();
}

int64_t tiles_of(int64_t extent) { return (extent + 3) / 4; }

/// Of `images` results of so many pixels.
Batches batches_of(const WinogradKernels& kernels, int64_t images, int64_t h, int64_t w,
                   int64_t channel_blocks, int64_t step) {
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return {images * tiles_of(h) * tiles_of(w), kComponents * channel_blocks * kernels.block * bytes,
          step};
}

/// Tiles whose transformed input and output stay in a core's own cache, if they are enough to make
/// use of the transformed weights that pass by, and every thread has some; else 0.
int64_t own_tiles(const WinogradKernels& kernels, int64_t images, int64_t h, int64_t w, int64_t in,
                  int64_t out, int threads) {
  const int64_t channels =
      (blocks_of(in, kernels.block) + blocks_of(out, kernels.block)) * kernels.block;
  const int64_t bytes = kComponents * channels * static_cast<int64_t>(sizeof(float));
  const int64_t fit = std::min(kMostOwnTiles, second_level_cache_bytes() * 3 / 5 / bytes);
  const int64_t tiles = fit / kernels.row_step * kernels.row_step;
  const int64_t all = images * tiles_of(h) * tiles_of(w);
  return tiles >= kLeastOwnTiles && all >= kLeastOwnTiles * threads ? tiles : 0;
}

}  // namespace

/// x (n, in, h, w) -> y (n, out, oh, ow) by transformed weights.
struct Winograd::Sweep {
  int64_t in, out, h, w, oh, ow, pad_h, pad_w;
  const float* x;
  const float* u;
  const float* bias;
  bool adds;
  bool relu;
  float slope;
  float* y;
};

int Winograd::block() { return simd_level() < SimdLevel::avx2 ? 0 : winograd_kernels().block; }

Winograd::Winograd(const WinogradProblem& problem)
    : problem_(problem), kernels_(&winograd_kernels()) {
  if (block() == 0) throw Error("Winograd convolution needs a processor with AVX2 and FMA");
  if (problem.out_h() <= 0 || problem.out_w() <= 0 || problem.pad_h > 2 || problem.pad_w > 2)
    throw Error("Winograd convolution takes 3x3 kernels that fit the input, padded by at most 2");
  const std::string form = concat("winograd ", kernels_->block, " ", problem.k, "x", problem.c);
  forward_ = DerivedWeights(form, transformed_bytes());
  turned_ = DerivedWeights(form + " turned", transformed_bytes());
}

size_t Winograd::transformed_bytes() const {
  return static_cast<size_t>(transformed_count()) * sizeof(float);
}

int64_t Winograd::transformed_count() const {
  const int64_t b = kernels_->block;
  return kComponents * blocks_of(problem_.k, kernels_->block) *
         blocks_of(problem_.c, kernels_->block) * b * b;
}

const float* Winograd::transformed(DerivedWeights& kept, const ConvolutionWeights& w, bool turned) {
  const int64_t outputs = turned ? problem_.c : problem_.k;
  const int64_t inputs = turned ? problem_.k : problem_.c;
  const auto transform = [&](void* to) {
    parallel_for(blocks_of(outputs, kernels_->block), 1, [&](int64_t begin, int64_t end) {
      kernels_->weights(w.values, outputs, inputs, turned, begin, end, static_cast<float*>(to));
    });
  };
  if (w.storage != nullptr) return static_cast<const float*>(kept.get(*w.storage, transform));
  float* const u = at_least(thread_scratch().weights, transformed_count());
  transform(u);
  return u;
}

/// Each thread works on a few tiles at a time by itself: what it transforms stays in its own cache.
void Winograd::convolve_by_tiles(const Sweep& s, int64_t capacity) {
  const int b = kernels_->block;
  const int64_t in_blocks = blocks_of(s.in, b), out_blocks = blocks_of(s.out, b);
  const int64_t h_tiles = tiles_of(s.oh), w_tiles = tiles_of(s.ow);
  const int64_t in_component = in_blocks * capacity * b, out_component = out_blocks * capacity * b;
  const int64_t u_component = out_blocks * in_blocks * b * b;
  parallel_for(problem_.n * h_tiles * w_tiles, kLeastOwnTiles, [&](int64_t begin, int64_t end) {
    float* const v = at_least(thread_scratch().tiles_in, kComponents * in_component);
    float* const m = at_least(thread_scratch().tiles_out, kComponents * out_component);
    const int64_t groups = (end - begin + capacity - 1) / capacity;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t first = begin + (end - begin) * group / groups;
      const int64_t count = begin + (end - begin) * (group + 1) / groups - first;
      const WinogradTiles in{in_blocks, s.h,     s.w,   h_tiles, w_tiles,
                             s.pad_h,   s.pad_w, first, count,   capacity};
      const WinogradTiles out{out_blocks, s.oh, s.ow,  h_tiles, w_tiles,
                              0,          0,    first, count,   capacity};
      kernels_->input(in, s.x, 0, count, v);
      // Rows past `count`, up to the step, are computed from old memory and never read.
      for (int64_t component = 0; component < kComponents; ++component) {
        kernels_->multiply(round_up(count, kernels_->row_step), capacity, in_blocks, 0, out_blocks,
                           v + component * in_component, s.u + component * u_component,
                           m + component * out_component);
      }
      kernels_->output(out, m, s.bias, s.adds, s.relu, s.slope, 0, count, s.y);
    }
  });
}

void Winograd::convolve(const Sweep& s) {
  const int64_t capacity =
      own_tiles(*kernels_, problem_.n, s.oh, s.ow, s.in, s.out, omp_get_max_threads());
  if (capacity > 0) return convolve_by_tiles(s, capacity);
  const int b = kernels_->block;
  const int64_t in_blocks = blocks_of(s.in, b), out_blocks = blocks_of(s.out, b);
  const int64_t h_tiles = tiles_of(s.oh), w_tiles = tiles_of(s.ow);
  const int64_t step = kernels_->row_step;
  const Batches batches =
      batches_of(*kernels_, problem_.n, s.oh, s.ow, in_blocks + out_blocks, step);
  const int64_t in_component = in_blocks * batches.size * b;
  const int64_t out_component = out_blocks * batches.size * b;
  const int64_t u_component = out_blocks * in_blocks * b * b;
  float* v = at_least(thread_scratch().tiles_in, kComponents * in_component);
  float* m = at_least(thread_scratch().tiles_out, kComponents * out_component);
  for (int64_t batch = 0; batch < batches.count; ++batch) {
    const int64_t count = batches.length(batch);
    const WinogradTiles in{in_blocks, s.h,         s.w,     h_tiles,
                           w_tiles,   s.pad_h,     s.pad_w, batches.first(batch),
                           count,     batches.size};
    const WinogradTiles out{out_blocks,           s.oh,  s.ow,        h_tiles, w_tiles, 0, 0,
                            batches.first(batch), count, batches.size};
    parallel_for(count, 1,
                 [&](int64_t begin, int64_t end) { kernels_->input(in, s.x, begin, end, v); });
    // Rows past `count`, up to the step, are computed from old memory and never read.
    parallel_for(kComponents * out_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {
        const int64_t component = at / out_blocks, first = at % out_blocks;
        const int64_t last = std::min(out_blocks, first + end - at);
        kernels_->multiply(round_up(count, step), batches.size, in_blocks, first, last,
                           v + component * in_component, s.u + component * u_component,
                           m + component * out_component);
        at += last - first;
      }
    });
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      kernels_->output(out, m, s.bias, s.adds, s.relu, s.slope, begin, end, s.y);
    });
  }
}

void Winograd::forward(const float* x, const ConvolutionWeights& w, const float* bias, bool adds,
                       bool relu, float slope, float* y) {
  const WinogradProblem& p = problem_;
  if (bias) {
    bias_.resize(static_cast<size_t>(round_up(p.k, kernels_->block)));
    std::copy(bias, bias + p.k, bias_.begin());
  }
  const float* u = transformed(forward_, w, false);
  convolve({p.c, p.k, p.h, p.w, p.out_h(), p.out_w(), p.pad_h, p.pad_w, x, u,
            bias ? bias_.data() : nullptr, adds, relu, slope, y});
}

void Winograd::backward_data(const float* dy, const ConvolutionWeights& w, float* dx) {
  const WinogradProblem& p = problem_;
  const float* u = transformed(turned_, w, true);
  convolve({p.k, p.c, p.out_h(), p.out_w(), p.h, p.w, 2 - p.pad_h, 2 - p.pad_w, dy, u, nullptr,
            false, false, 0, dx});
}

void Winograd::backward_weights(const float* x, const float* dy, bool add_weights, float* dw,
                                bool add_bias, float* db) {
  const WinogradProblem& p = problem_;
  const int b = kernels_->block;
  const int64_t in_blocks = blocks_of(p.c, b), out_blocks = blocks_of(p.k, b);
  const int64_t h_tiles = tiles_of(p.out_h()), w_tiles = tiles_of(p.out_w());
  const Batches batches =
      batches_of(*kernels_, p.n, p.out_h(), p.out_w(), in_blocks + out_blocks, 1);
  const int64_t in_component = in_blocks * batches.size * b;
  const int64_t out_component = out_blocks * batches.size * b;
  const int64_t u_component = out_blocks * in_blocks * b * b;
  float* v = at_least(thread_scratch().tiles_in, kComponents * in_component);
  float* dm = at_least(thread_scratch().tiles_out, kComponents * out_component);
  float* du = at_least(thread_scratch().weights, kComponents * u_component);
  if (db) bias_sums_.assign(static_cast<size_t>(out_blocks * b), 0.0);
  for (int64_t batch = 0; batch < batches.count; ++batch) {
    const int64_t count = batches.length(batch);
    const WinogradTiles in{in_blocks, p.h,         p.w,     h_tiles,
                           w_tiles,   p.pad_h,     p.pad_w, batches.first(batch),
                           count,     batches.size};
    const WinogradTiles out{out_blocks,           p.out_h(), p.out_w(),   h_tiles, w_tiles, 0, 0,
                            batches.first(batch), count,     batches.size};
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      kernels_->input(in, x, begin, end, v);
      kernels_->output_gradient(out, dy, begin, end, dm);
    });
    parallel_for(kComponents * out_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {
        const int64_t component = at / out_blocks, first = at % out_blocks;
        const int64_t last = std::min(out_blocks, first + end - at);
        kernels_->multiply_gradient(count, batches.size, in_blocks, first, last,
                                    v + component * in_component, dm + component * out_component,
                                    batch > 0, du + component * u_component);
        at += last - first;
      }
    });
    if (!db) continue;
    // Component (1, 1) of A dy A^T is the sum of the tile.
    const float* const sums = dm + kTileSum * out_component;
    parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const float* from = sums + block * batches.size * b;
        double* const to = bias_sums_.data() + block * b;
        for (int64_t tile = 0; tile < count; ++tile, from += b) {
          for (int lane = 0; lane < b; ++lane) to[lane] += static_cast<double>(from[lane]);
        }
      }
    });
  }
  parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
    kernels_->weights_gradient(du, p.k, p.c, add_weights, begin, end, dw);
  });
  for (int64_t k = 0; db && k < p.k; ++k) {
    const auto sum = static_cast<float>(bias_sums_[static_cast<size_t>(k)]);
    db[k] = (add_bias ? db[k] : 0.0F) + sum;
  }
}

void Winograd::plan_scratch(ScratchPlan& plan, ConvolutionPass pass, bool training) const {
  const WinogradProblem& p = problem_;
  const bool data = pass == ConvolutionPass::backward_data;
  const bool weights = pass == ConvolutionPass::backward_weights;
  const int64_t inputs = blocks_of(p.c, kernels_->block), outputs = blocks_of(p.k, kernels_->block);
  const Batches batches = batches_of(*kernels_, p.n, data ? p.h : p.out_h(), data ? p.w : p.out_w(),
                                     inputs + outputs, weights ? 1 : kernels_->row_step);
  const int64_t own = weights ? 0
                              : own_tiles(*kernels_, p.n, data ? p.h : p.out_h(),
                                          data ? p.w : p.out_w(), p.c, p.k, plan.threads());
  const int64_t block_count = kComponents * (own > 0 ? own : batches.size) * kernels_->block;
  const auto need = [&](std::string_view place, int64_t count, int64_t threads) {
    plan.need(place, static_cast<size_t>(count) * sizeof(float), threads);
  };
  const int64_t threads = own > 0 ? plan.threads() : 1;
  need("winograd tiles in", block_count * (data ? outputs : inputs), threads);
  need("winograd tiles out", block_count * (data ? inputs : outputs), threads);
  if (weights || training) need("winograd weights", transformed_count(), 1);
}

}  // namespace crema
