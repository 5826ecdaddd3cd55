#include "backend/cpu/winograd.hpp"

#include <algorithm>
#include <vector>

#include "backend/cpu/winograd_kernels.hpp"
#include "backend/parallel.hpp"

namespace crema {
namespace {

constexpr int kComponents = 36;
// Tiles are worked on in batches whose transformed input and output stay in the last-level cache.
constexpr int64_t kBatchBytes = 12 << 20;

int64_t blocks_of(int64_t channels, int block) { return (channels + block - 1) / block; }

const WinogradKernels* best_kernels() {
  const WinogradKernels* wide = winograd_avx512();
  return wide ? wide : winograd_avx2();
}

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

}  // namespace

/// x (n, in, h, w) -> y (n, out, oh, ow) by transformed weights.
struct Winograd::Sweep {
  int64_t in, out, h, w, oh, ow, pad_h, pad_w;
  const float* x;
  const float* u;
  const float* bias;
  bool relu;
  float slope;
  float* y;
};

int Winograd::block() {
  const WinogradKernels* kernels = best_kernels();
  return kernels ? kernels->block : 0;
}

Winograd::Winograd(const WinogradProblem& problem, bool keep_weights)
    : problem_(problem), keep_weights_(keep_weights), kernels_(best_kernels()) {
  require(kernels_ != nullptr, "Winograd convolution needs a processor with AVX2 and FMA");
  require(problem.out_h() > 0 && problem.out_w() > 0 && problem.pad_h <= 2 && problem.pad_w <= 2,
          "Winograd convolution takes 3x3 kernels that fit the input, padded by at most 2");
}

const float* Winograd::transformed(Weights& kept, const float* w, bool turned, uint64_t version) {
  if (keep_weights_ && kept.version == version) return kept.values.host<float>();
  const int64_t outputs = turned ? problem_.c : problem_.k;
  const int64_t inputs = turned ? problem_.k : problem_.c;
  const int64_t out_blocks = blocks_of(outputs, kernels_->block);
  const int64_t in_blocks = blocks_of(inputs, kernels_->block);
  float* u = at_least(keep_weights_ ? kept.values : thread_scratch().weights,
                      kComponents * out_blocks * in_blocks * kernels_->block * kernels_->block);
  parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
    kernels_->weights(w, outputs, inputs, turned, begin, end, u);
  });
  kept.version = version;
  return u;
}

void Winograd::convolve(const Sweep& s) {
  const int b = kernels_->block;
  const int64_t in_blocks = blocks_of(s.in, b), out_blocks = blocks_of(s.out, b);
  const int64_t h_tiles = (s.oh + 3) / 4, w_tiles = (s.ow + 3) / 4;
  const int64_t step = kernels_->row_step;
  const Batches batches(problem_.n * h_tiles * w_tiles,
                        kComponents * (in_blocks + out_blocks) * b * 4, step);
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
      kernels_->output(out, m, s.bias, s.relu, s.slope, begin, end, s.y);
    });
  }
}

void Winograd::forward(const float* x, const float* w, uint64_t version, const float* bias,
                       bool relu, float slope, float* y) {
  const WinogradProblem& p = problem_;
  // The bias, padded with zeros to whole blocks.
  std::vector<float> padded;
  if (bias) {
    padded.assign(static_cast<size_t>(round_up(p.k, kernels_->block)), 0.0F);
    std::copy(bias, bias + p.k, padded.begin());
  }
  const float* u = transformed(forward_, w, false, version);
  convolve({p.c, p.k, p.h, p.w, p.out_h(), p.out_w(), p.pad_h, p.pad_w, x, u,
            bias ? padded.data() : nullptr, relu, slope, y});
}

void Winograd::backward_data(const float* dy, const float* w, uint64_t version, float* dx) {
  const WinogradProblem& p = problem_;
  const float* u = transformed(turned_, w, true, version);
  convolve({p.k, p.c, p.out_h(), p.out_w(), p.h, p.w, 2 - p.pad_h, 2 - p.pad_w, dy, u, nullptr,
            false, 0, dx});
}

void Winograd::backward_weights(const float* x, const float* dy, bool add_weights, float* dw,
                                bool add_bias, float* db) {
  const WinogradProblem& p = problem_;
  const int b = kernels_->block;
  const int64_t in_blocks = blocks_of(p.c, b), out_blocks = blocks_of(p.k, b);
  const int64_t h_tiles = (p.out_h() + 3) / 4, w_tiles = (p.out_w() + 3) / 4;
  const Batches batches(p.n * h_tiles * w_tiles, kComponents * (in_blocks + out_blocks) * b * 4, 1);
  const int64_t in_component = in_blocks * batches.size * b;
  const int64_t out_component = out_blocks * batches.size * b;
  const int64_t u_component = out_blocks * in_blocks * b * b;
  float* v = at_least(thread_scratch().tiles_in, kComponents * in_component);
  float* dm = at_least(thread_scratch().tiles_out, kComponents * out_component);
  float* du = at_least(thread_scratch().weights, kComponents * u_component);
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
  }
  parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
    kernels_->weights_gradient(du, p.k, p.c, add_weights, begin, end, dw);
  });
  if (!db) return;
  const int64_t plane = p.out_h() * p.out_w();
  parallel_for(out_blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t lane = 0; lane < std::min<int64_t>(b, p.k - block * b); ++lane) {
        double sum = 0;
        for (int64_t image = 0; image < p.n; ++image) {
          const float* from = dy + (image * out_blocks + block) * plane * b + lane;
          for (int64_t i = 0; i < plane; ++i) sum += static_cast<double>(from[i * b]);
        }
        float& to = db[block * b + lane];
        to = (add_bias ? to : 0.0F) + static_cast<float>(sum);
      }
    }
  });
}

size_t Winograd::kept_bytes() const {
  size_t total = 0;
  for (const Weights* weights : {&forward_, &turned_}) {
    if (weights->values.has_memory()) total += weights->values.bytes();
  }
  return total;
}

}  // namespace crema
