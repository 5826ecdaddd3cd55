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
constexpr int kTileSum = kComponents;  // behind the components of A dy A^T
// Tiles are worked on in batches whose transformed input and output stay in the last-level cache.
constexpr int64_t kBatchBytes = 12 << 20;
// Or, where that is possible, in so many tiles that they stay in a core's own cache.
constexpr int64_t kLeastOwnTiles = 24, kMostOwnTiles = 64;
// Outputs that are worked on together then.
constexpr int64_t kPanel = 48;
// Bytes of the sums of all threads where each has its own.
constexpr int64_t kMostOwnSums = 8 << 20;

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

/// Calls body(first, count) for groups of at most `capacity` tiles of [begin, end).
template <class Body>
void each_group(int64_t begin, int64_t end, int64_t capacity, const Body& body) {
  const int64_t groups = (end - begin + capacity - 1) / capacity;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = begin + (end - begin) * group / groups;
    body(first, begin + (end - begin) * (group + 1) / groups - first);
  }
}

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
  return tensor.overwrite<float>();
}

/// Of so many blocks that are left, those of the next panel.
int64_t panel_of(int64_t left, int block) {
  const int64_t most = kPanel / block;
  return left == most + 1 ? (left + 1) / 2 : std::min(left, most);
}

/// Adds the sum of each channel of blocks [begin, end) of tiles that output_gradient() transformed.
void add_channel_sums(const WinogradTiles& tiles, int block, const float* dm, int64_t begin,
                      int64_t end, double* sums) {
  const float* const planes = dm + kTileSum * tiles.some_blocks * tiles.capacity * block;
  for (int64_t k = begin; k < end; ++k) {
    const float* from = planes + k * tiles.capacity * block;
    double* const to = sums + (tiles.first_block + k) * block;
    for (int64_t tile = 0; tile < tiles.count; ++tile, from += block) {
      for (int lane = 0; lane < block; ++lane) to[lane] += static_cast<double>(from[lane]);
    }
  }
}

}  // namespace

/// A pass of one group seen as a convolution of x (n, in, h, w) to y (n, out, oh, ow). The images
/// hold all groups.
struct Winograd::Pass {
  const WinogradKernels& kernels;
  int64_t groups, tile_outputs;
  int64_t n, in, out, h, w, oh, ow, pad_h, pad_w;
  /// Of channels in memory, of an image.
  int64_t x_blocks, y_blocks;

  int block() const { return kernels.block; }
  int64_t in_blocks() const { return blocks_of(in, block()); }
  int64_t out_blocks() const { return blocks_of(out, block()); }
  /// Floats of one component of transformed weights, and of all.
  int64_t u_component() const { return out_blocks() * in_blocks() * block() * block(); }
  int64_t u_count() const { return kComponents * u_component(); }
  /// Floats of a group in an image.
  int64_t x_group() const { return in_blocks() * h * w * block(); }
  int64_t y_group() const { return out_blocks() * oh * ow * block(); }
  int64_t h_tiles() const { return (oh + tile_outputs - 1) / tile_outputs; }
  int64_t w_tiles() const { return (ow + tile_outputs - 1) / tile_outputs; }
  int64_t tiles() const { return n * h_tiles() * w_tiles(); }
  Batches batches(int64_t step) const {
    const auto bytes = static_cast<int64_t>(sizeof(float));
    return {tiles(), kComponents * (in_blocks() + out_blocks()) * block() * bytes, step};
  }

  /// Tiles whose transformed input, and output of a panel, stay in a core's own cache, if they are
  /// enough to make use of the transformed weights that pass by, and every thread has some; else 0.
  int64_t own_tiles(int threads) const {
    const int64_t panel = std::min(kPanel / block(), out_blocks());
    const int64_t bytes = kComponents * (in_blocks() + panel) * block() * int64_t{sizeof(float)};
    const int64_t fit = std::min(kMostOwnTiles, second_level_cache_bytes() * 3 / 5 / bytes);
    const int64_t own = fit / kernels.row_step * kernels.row_step;
    return own >= kLeastOwnTiles && tiles() >= kLeastOwnTiles * threads ? own : 0;
  }
  /// The same for backward weights, where every thread has sums of its own.
  int64_t own_tiles_of_weights(int threads) const {
    const bool fit = threads * u_count() * int64_t{sizeof(float)} <= kMostOwnSums;
    return fit ? own_tiles(threads) : 0;
  }

  /// Without the range of tiles.
  WinogradTiles source(int64_t capacity) const {
    return {.outputs = tile_outputs,
            .blocks = x_blocks,
            .some_blocks = in_blocks(),
            .h = h,
            .w = w,
            .h_tiles = h_tiles(),
            .w_tiles = w_tiles(),
            .pad_h = pad_h,
            .pad_w = pad_w,
            .capacity = capacity};
  }
  WinogradTiles target(int64_t capacity) const {
    return {.outputs = tile_outputs,
            .blocks = y_blocks,
            .some_blocks = out_blocks(),
            .h = oh,
            .w = ow,
            .h_tiles = h_tiles(),
            .w_tiles = w_tiles(),
            .capacity = capacity};
  }
};

/// Forward, or backward data, by transformed weights.
struct Winograd::Sweep {
  Pass pass;
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
  const int taps = problem.taps;
  if ((taps != 3 && taps != 5) || problem.n <= 0 || problem.c <= 0 || problem.k <= 0 ||
      problem.out_h() <= 0 || problem.out_w() <= 0 || problem.pad_h >= taps ||
      problem.pad_w >= taps)
    throw Error(
        "Winograd convolution takes kernels of 3x3 or 5x5 that fit the input, padded by less than "
        "that");
  const int64_t groups = problem.groups, whole = kernels_->block * groups;
  if (groups != 1 && (groups <= 0 || problem.c % whole != 0 || problem.k % whole != 0))
    throw Error("Winograd convolution takes groups of whole blocks of ", kernels_->block,
                " channels");
  const std::string form =
      text("winograd ", kernels_->block, " ", problem.k, "x", problem.c, "x", taps, "/", groups);
  forward_ = DerivedWeights(form, transformed_bytes());
  turned_ = DerivedWeights(form + " turned", transformed_bytes());
}

Winograd::Pass Winograd::pass_of(ConvolutionPass pass) const {
  const WinogradProblem& p = problem_;
  const int64_t c = p.c / p.groups, k = p.k / p.groups;
  const int64_t of_x = p.groups * blocks_of(c, block());
  const int64_t of_y = p.y_blocks > 0 ? p.y_blocks : p.groups * blocks_of(k, block());
  if (pass != ConvolutionPass::backward_data) {
    return {*kernels_, p.groups,  p.tile_outputs(), p.n,     c,       k,    p.h,
            p.w,       p.out_h(), p.out_w(),        p.pad_h, p.pad_w, of_x, of_y};
  }
  const int64_t edge = p.taps - 1;
  return {*kernels_, p.groups,       p.tile_outputs(), p.n,  k,   c, p.out_h(), p.out_w(), p.h,
          p.w,       edge - p.pad_h, edge - p.pad_w,   of_y, of_x};
}

int64_t Winograd::group_weights() const {
  const WinogradProblem& p = problem_;
  return p.k / p.groups * (p.c / p.groups) * p.taps * p.taps;
}

size_t Winograd::transformed_bytes() const {
  const int64_t count = problem_.groups * pass_of(ConvolutionPass::forward).u_count();
  return static_cast<size_t>(count) * sizeof(float);
}

const float* Winograd::transformed(DerivedWeights& kept, const ConvolutionWeights& w, bool turned) {
  const Pass pass = pass_of(turned ? ConvolutionPass::backward_data : ConvolutionPass::forward);
  const int64_t out_blocks = pass.out_blocks();
  const auto transform = [&](void* to) {
    parallel_for(problem_.groups * out_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {
        const int64_t group = at / out_blocks, first = at % out_blocks;
        const int64_t last = std::min(out_blocks, first + end - at);
        kernels_->weights(w.values + group * group_weights(), problem_.taps, pass.out, pass.in,
                          turned, first, last, static_cast<float*>(to) + group * pass.u_count());
        at += last - first;
      }
    });
  };
  if (w.storage != nullptr) return static_cast<const float*>(kept.get(*w.storage, transform));
  float* const u = at_least(thread_scratch().weights, problem_.groups * pass.u_count());
  transform(u);
  return u;
}

/// Each thread works on a few tiles at a time by itself: what it transforms stays in its own cache.
void Winograd::convolve_by_tiles(const Sweep& s, int64_t capacity) {
  const Pass& p = s.pass;
  const int b = p.block();
  const int64_t in_blocks = p.in_blocks(), out_blocks = p.out_blocks();
  const int64_t of_block = capacity * b, u_block = in_blocks * b * b;
  const int64_t most = std::min(out_blocks, kPanel / b);
  parallel_for(p.tiles(), kLeastOwnTiles, [&](int64_t begin, int64_t end) {
    float* const v = at_least(thread_scratch().tiles_in, kComponents * in_blocks * of_block);
    float* const m = at_least(thread_scratch().tiles_out, kComponents * most * of_block);
    WinogradTiles in = p.source(capacity), out = p.target(capacity);
    each_group(begin, end, capacity, [&](int64_t first, int64_t count) {
      in.first = out.first = first;
      in.count = out.count = count;
      kernels_->input(in, s.x, 0, count, v);
      for (int64_t panel = 0; panel < out_blocks; panel += out.some_blocks) {
        out.first_block = panel;
        out.some_blocks = panel_of(out_blocks - panel, b);
        // Rows past `count`, up to the step, are computed from old memory and never read.
        for (int64_t component = 0; component < kComponents; ++component) {
          kernels_->multiply(round_up(count, kernels_->row_step), capacity, in_blocks, 0,
                             out.some_blocks, v + component * in_blocks * of_block,
                             s.u + (component * out_blocks + panel) * u_block,
                             m + component * out.some_blocks * of_block);
        }
        kernels_->output(out, m, s.bias, s.adds, s.relu, s.slope, 0, count, s.y);
      }
    });
  });
}

void Winograd::convolve(const Sweep& s) {
  const Pass& p = s.pass;
  const int64_t own = p.own_tiles(omp_get_max_threads());
  if (own > 0) return convolve_by_tiles(s, own);
  const int64_t step = kernels_->row_step;
  const Batches batches = p.batches(step);
  const int64_t in_blocks = p.in_blocks(), out_blocks = p.out_blocks();
  const int64_t in_component = in_blocks * batches.size * p.block();
  const int64_t out_component = out_blocks * batches.size * p.block();
  float* v = at_least(thread_scratch().tiles_in, kComponents * in_component);
  float* m = at_least(thread_scratch().tiles_out, kComponents * out_component);
  WinogradTiles in = p.source(batches.size), out = p.target(batches.size);
  for (int64_t batch = 0; batch < batches.count; ++batch) {
    const int64_t count = batches.length(batch);
    in.first = out.first = batches.first(batch);
    in.count = out.count = count;
    parallel_for(count, 1,
                 [&](int64_t begin, int64_t end) { kernels_->input(in, s.x, begin, end, v); });
    // Rows past `count`, up to the step, are computed from old memory and never read.
    parallel_for(kComponents * out_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {
        const int64_t component = at / out_blocks, first = at % out_blocks;
        const int64_t last = std::min(out_blocks, first + end - at);
        kernels_->multiply(round_up(count, step), batches.size, in_blocks, first, last,
                           v + component * in_component, s.u + component * p.u_component(),
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
  if (bias) {
    bias_.resize(static_cast<size_t>(round_up(problem_.k, kernels_->block)));
    std::copy(bias, bias + problem_.k, bias_.begin());
  }
  const Pass pass = pass_of(ConvolutionPass::forward);
  const float* const u = transformed(forward_, w, false);
  for (int64_t group = 0; group < problem_.groups; ++group) {
    convolve({pass, x + group * pass.x_group(), u + group * pass.u_count(),
              bias ? bias_.data() + group * pass.out : nullptr, adds, relu, slope,
              y + group * pass.y_group()});
  }
}

void Winograd::backward_data(const float* dy, const ConvolutionWeights& w, float* dx) {
  const Pass pass = pass_of(ConvolutionPass::backward_data);
  const float* const u = transformed(turned_, w, true);
  for (int64_t group = 0; group < problem_.groups; ++group) {
    convolve({pass, dy + group * pass.x_group(), u + group * pass.u_count(), nullptr, false, false,
              0, dx + group * pass.y_group()});
  }
}

/// Each thread sums over a few tiles at a time, into sums of its own. Returns their total.
const float* Winograd::sum_by_tiles(const float* x, const float* dy, bool wants_bias,
                                    int64_t capacity) {
  const Pass p = pass_of(ConvolutionPass::backward_weights);
  const int b = p.block();
  const int64_t in_blocks = p.in_blocks(), out_blocks = p.out_blocks(), u_count = p.u_count();
  const int64_t of_block = capacity * b, u_block = in_blocks * b * b;
  const int64_t most = std::min(out_blocks, kPanel / b);
  const int64_t parts = omp_get_max_threads(), tiles = p.tiles();
  float* const sums = at_least(thread_scratch().weights, parts * u_count);
  if (wants_bias) bias_sums_.assign(static_cast<size_t>(parts * out_blocks * b), 0.0);
  parallel_for(parts, 1, [&](int64_t part, int64_t last_part) {
    for (; part < last_part; ++part) {
      float* const v = at_least(thread_scratch().tiles_in, kComponents * in_blocks * of_block);
      float* const dm = at_least(thread_scratch().tiles_out, (kComponents + 1) * most * of_block);
      float* const du = sums + part * u_count;
      double* const of_bias = wants_bias ? bias_sums_.data() + part * out_blocks * b : nullptr;
      WinogradTiles in = p.source(capacity), out = p.target(capacity);
      bool adds = false;
      each_group(tiles * part / parts, tiles * (part + 1) / parts, capacity,
                 [&](int64_t first, int64_t count) {
                   in.first = out.first = first;
                   in.count = out.count = count;
                   kernels_->input(in, x, 0, count, v);
                   for (int64_t panel = 0; panel < out_blocks; panel += out.some_blocks) {
                     out.first_block = panel;
                     out.some_blocks = panel_of(out_blocks - panel, b);
                     kernels_->output_gradient(out, dy, 0, count, dm);
                     for (int64_t component = 0; component < kComponents; ++component) {
                       kernels_->multiply_gradient(count, capacity, in_blocks, 0, out.some_blocks,
                                                   v + component * in_blocks * of_block,
                                                   dm + component * out.some_blocks * of_block,
                                                   adds,
                                                   du + (component * out_blocks + panel) * u_block);
                     }
                     if (wants_bias) add_channel_sums(out, b, dm, 0, out.some_blocks, of_bias);
                   }
                   adds = true;
                 });
    }
  });
  parallel_for(u_count, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t part = 1; part < parts; ++part) {
      const float* const from = sums + part * u_count;
      for (int64_t i = begin; i < end; ++i) sums[i] += from[i];
    }
  });
  const int64_t outputs = out_blocks * b;
  for (int64_t i = outputs; wants_bias && i < parts * outputs; ++i)
    bias_sums_[static_cast<size_t>(i % outputs)] += bias_sums_[static_cast<size_t>(i)];
  return sums;
}

/// All threads transform a batch of tiles, and then share its components out.
const float* Winograd::sum_by_components(const float* x, const float* dy, bool wants_bias) {
  const Pass p = pass_of(ConvolutionPass::backward_weights);
  const int b = p.block();
  const int64_t in_blocks = p.in_blocks(), out_blocks = p.out_blocks();
  const Batches batches = p.batches(1);
  const int64_t in_component = in_blocks * batches.size * b;
  const int64_t out_component = out_blocks * batches.size * b;
  float* v = at_least(thread_scratch().tiles_in, kComponents * in_component);
  float* dm = at_least(thread_scratch().tiles_out, (kComponents + 1) * out_component);
  float* du = at_least(thread_scratch().weights, p.u_count());
  if (wants_bias) bias_sums_.assign(static_cast<size_t>(out_blocks * b), 0.0);
  WinogradTiles in = p.source(batches.size), out = p.target(batches.size);
  for (int64_t batch = 0; batch < batches.count; ++batch) {
    const int64_t count = batches.length(batch);
    in.first = out.first = batches.first(batch);
    in.count = out.count = count;
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
                                    batch > 0, du + component * p.u_component());
        at += last - first;
      }
    });
    if (!wants_bias) continue;
    parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
      add_channel_sums(out, b, dm, begin, end, bias_sums_.data());
    });
  }
  return du;
}

void Winograd::backward_weights(const float* x, const float* dy, bool add_weights, float* dw,
                                bool add_bias, float* db) {
  const Pass pass = pass_of(ConvolutionPass::backward_weights);
  const int64_t own = pass.own_tiles_of_weights(omp_get_max_threads());
  const bool wants_bias = db != nullptr;
  for (int64_t group = 0; group < problem_.groups; ++group) {
    const float* const of_x = x + group * pass.x_group();
    const float* const of_dy = dy + group * pass.y_group();
    const float* const du = own > 0 ? sum_by_tiles(of_x, of_dy, wants_bias, own)
                                    : sum_by_components(of_x, of_dy, wants_bias);
    parallel_for(pass.out_blocks(), 1, [&](int64_t begin, int64_t end) {
      kernels_->weights_gradient(du, problem_.taps, pass.out, pass.in, add_weights, begin, end,
                                 dw + group * group_weights());
    });
    for (int64_t k = 0; wants_bias && k < pass.out; ++k) {
      float& to = db[group * pass.out + k];
      to = (add_bias ? to : 0.0F) + static_cast<float>(bias_sums_[static_cast<size_t>(k)]);
    }
  }
}

void Winograd::plan_scratch(ScratchPlan& plan, ConvolutionPass pass, bool training) const {
  const Pass p = pass_of(pass);
  const bool weights = pass == ConvolutionPass::backward_weights;
  const int threads = plan.threads();
  const int64_t own = weights ? p.own_tiles_of_weights(threads) : p.own_tiles(threads);
  const int64_t size = own > 0 ? own : p.batches(weights ? 1 : kernels_->row_step).size;
  const int64_t outputs = own > 0 ? std::min(p.out_blocks(), kPanel / p.block()) : p.out_blocks();
  const auto need = [&](std::string_view place, int64_t count, int64_t of_threads) {
    plan.need(place, static_cast<size_t>(count) * sizeof(float), of_threads);
  };
  const int64_t of_block = size * p.block(), made = kComponents + (weights ? 1 : 0);
  need("winograd tiles in", kComponents * of_block * p.in_blocks(), own > 0 ? threads : 1);
  need("winograd tiles out", made * of_block * outputs, own > 0 ? threads : 1);
  if (weights) {
    need("winograd weights", p.u_count() * (own > 0 ? threads : 1), 1);
  } else if (training) {
    need("winograd weights", problem_.groups * p.u_count(), 1);
  }
}

}  // namespace crema
