#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/winograd_kernels.cpp"
#include "backend/cpu/winograd_kernels.hpp"

#include "backend/cpu/highway.hpp"
#include "core/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;
constexpr int kBlock = hn::MaxLanes(Floats());

// The micro-kernel keeps kRows x (up to kMostBlocks) vectors of sums in registers: 24 where there
// are 32 of these, else 12. A block of kRows inputs has to be part of kBlock ones.
constexpr int kRows = kBlock == 16 ? 8 : 4;
constexpr int kMostBlocks = CREMA_HAS_32_REGISTERS ? 24 / kRows : 3;

/// How many of `left` blocks to take: as many as the rest takes, as near as can be.
int blocks_of(int64_t left) {
  const int64_t parts = (left + kMostBlocks - 1) / kMostBlocks;
  return static_cast<int>((left + parts - 1) / parts);
}

// So many tiles are summed before their sum is added to that of others: one sum over all of them
// has twice the rounding error. Their gradients stay in the first-level cache.
constexpr int64_t kSummedTiles = 64;

/// Inputs whose weights are transposed at once.
constexpr int kTurned = 16;

HWY_INLINE V zero() { return hn::Zero(Floats()); }
HWY_INLINE V all(float value) { return hn::Set(Floats(), value); }
/// v + factor * x
HWY_INLINE V plus(V v, float factor, V x) { return hn::MulAdd(all(factor), x, v); }
HWY_INLINE V load(const float* p) { return hn::LoadU(Floats(), p); }
HWY_INLINE void store(float* p, V v) { hn::StoreU(v, Floats(), p); }

// The points are 0, kA, -kA, kB, -kB and infinity. All powers that B and A need are floats.
constexpr float kA = 0.75F, kB = 1.5F;
constexpr float kA2 = kA * kA, kB2 = kB * kB;
// A point's factor in G: 1 over the product of its differences to the other points.
constexpr float kFactor0 = 1 / (kA2 * kB2);
constexpr float kFactorA = 1 / (2 * kA2 * (kA2 - kB2)), kFactorB = 1 / (2 * kB2 * (kB2 - kA2));

// One dimension of each transform, on vectors that lie `s` apart, to vectors that lie `t` apart.
// Values of polynomials at a point and at its negative share their even and their odd terms.

/// B^T d: for each point, the product of (x - p) over the other points p, whose coefficients
/// multiply d; for infinity over all of them.
HWY_INLINE void input_line(const V* d, V* out, int s) {
  const V d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
  const V even_a = plus(d4, -kB2, d2), odd_a = plus(d3, -kB2, d1);
  const V even_b = plus(d4, -kA2, d2), odd_b = plus(d3, -kA2, d1);
  out[0] = plus(plus(d4, -kA2 - kB2, d2), kA2 * kB2, d0);
  out[s] = plus(even_a, kA, odd_a);
  out[2 * s] = plus(even_a, -kA, odd_a);
  out[3 * s] = plus(even_b, kB, odd_b);
  out[4 * s] = plus(even_b, -kB, odd_b);
  out[5 * s] = plus(plus(d5, -kA2 - kB2, d3), kA2 * kB2, d1);
}

/// A^T m: to Outputs of 4 or 2 results.
template <int Outputs>
HWY_INLINE void output_line(const V* m, V* out, int s, int t) {
  const V even_a = m[s] + m[2 * s], odd_a = m[s] - m[2 * s];
  const V even_b = m[3 * s] + m[4 * s], odd_b = m[3 * s] - m[4 * s];
  out[0] = m[0] + even_a + even_b;
  out[t] = plus(odd_a * all(kA), kB, odd_b);
  if (Outputs == 4) {
    out[2 * t] = plus(even_a * all(kA2), kB2, even_b);
    out[3 * t] = plus(odd_a * all(kA * kA2), kB * kB2, odd_b);
  }
  out[(Outputs - 1) * t] = out[(Outputs - 1) * t] + m[5 * s];
}

/// A dy.
template <int Outputs>
HWY_INLINE void gradient_line(const V* y, V* out, int s, int t) {
  const V y0 = y[0], y1 = y[s];
  V even_a = y0, odd_a = y1, even_b = y0, odd_b = y1;
  if (Outputs == 4) {
    const V y2 = y[2 * s], y3 = y[3 * s];
    even_a = plus(y0, kA2, y2);
    odd_a = plus(y1, kA2, y3);
    even_b = plus(y0, kB2, y2);
    odd_b = plus(y1, kB2, y3);
  }
  out[0] = y0;
  out[t] = plus(even_a, kA, odd_a);
  out[2 * t] = plus(even_a, -kA, odd_a);
  out[3 * t] = plus(even_b, kB, odd_b);
  out[4 * t] = plus(even_b, -kB, odd_b);
  out[5 * t] = y[(Outputs - 1) * s];
}

/// G g: from Taps of 3 or 5 weights.
template <int Taps>
HWY_INLINE void weights_line(const V* g, V* out, int s, int t) {
  const V g0 = g[0], g1 = g[s], g2 = g[2 * s];
  V even_a = plus(g0, kA2, g2), odd_a = g1, even_b = plus(g0, kB2, g2), odd_b = g1;
  if (Taps == 5) {
    const V g3 = g[3 * s], g4 = g[4 * s];
    even_a = plus(even_a, kA2 * kA2, g4);
    odd_a = plus(odd_a, kA2, g3);
    even_b = plus(even_b, kB2 * kB2, g4);
    odd_b = plus(odd_b, kB2, g3);
  }
  even_a *= all(kFactorA);
  even_b *= all(kFactorB);
  out[0] = g0 * all(kFactor0);
  out[t] = plus(even_a, kFactorA * kA, odd_a);
  out[2 * t] = plus(even_a, -kFactorA * kA, odd_a);
  out[3 * t] = plus(even_b, kFactorB * kB, odd_b);
  out[4 * t] = plus(even_b, -kFactorB * kB, odd_b);
  out[5 * t] = g[(Taps - 1) * s];
}

/// G^T u.
template <int Taps>
HWY_INLINE void weights_gradient_line(const V* u, V* out, int s, int t) {
  const V even_a = (u[s] + u[2 * s]) * all(kFactorA), odd_a = (u[s] - u[2 * s]) * all(kFactorA);
  const V even_b = (u[3 * s] + u[4 * s]) * all(kFactorB);
  const V odd_b = (u[3 * s] - u[4 * s]) * all(kFactorB);
  out[0] = plus(even_a + even_b, kFactor0, u[0]);
  out[t] = plus(odd_a * all(kA), kB, odd_b);
  out[2 * t] = plus(even_a * all(kA2), kB2, even_b);
  if (Taps == 5) {
    out[3 * t] = plus(odd_a * all(kA * kA2), kB * kB2, odd_b);
    out[4 * t] = plus(even_a * all(kA2 * kA2), kB2 * kB2, even_b);
  }
  out[(Taps - 1) * t] = out[(Taps - 1) * t] + u[5 * s];
}

/// Where a tile stands.
struct Place {
  int64_t image, row, column;  // row and column of its first output
};

/// Calls body(tile, place) for tiles [begin, end), in their order.
template <class Body>
HWY_INLINE void each_tile(const WinogradTiles& t, int64_t begin, int64_t end, const Body& body) {
  const int64_t an_image = t.h_tiles * t.w_tiles, number = t.first + begin;
  const int64_t within = number % an_image;
  Place at{number / an_image, within / t.w_tiles * t.outputs, within % t.w_tiles * t.outputs};
  for (int64_t tile = begin; tile < end; ++tile) {
    body(tile, at);
    at.column += t.outputs;
    if (at.column < t.outputs * t.w_tiles) continue;
    at.column = 0;
    at.row += t.outputs;
    if (at.row < t.outputs * t.h_tiles) continue;
    at.row = 0;
    ++at.image;
  }
}

// The transforms go through one block of channels after the other: its tiles lie side by side in
// each component, and share columns and rows of the image.

void input(const WinogradTiles& t, const float* x, int64_t begin, int64_t end, float* v) {
  const int64_t component = t.some_blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.some_blocks; ++block) {
    const int64_t channels = t.first_block + block;
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const int64_t row = at.row - t.pad_h, column = at.column - t.pad_w;
      const bool inside = row >= 0 && column >= 0 && row + 6 <= t.h && column + 6 <= t.w;
      const float* plane = x + (at.image * t.blocks + channels) * t.h * t.w * kBlock;
      V d[36], half[36];
      if (inside) {
        for (int i = 0; i < 6; ++i) {
          const float* line = plane + ((row + i) * t.w + column) * kBlock;
          for (int j = 0; j < 6; ++j) d[6 * i + j] = load(line + j * kBlock);
        }
      } else {
        for (int i = 0; i < 6; ++i) {
          for (int j = 0; j < 6; ++j) {
            const int64_t r = row + i, c = column + j;
            const bool there = r >= 0 && r < t.h && c >= 0 && c < t.w;
            d[6 * i + j] = there ? load(plane + (r * t.w + c) * kBlock) : zero();
          }
        }
      }
      for (int j = 0; j < 6; ++j) input_line(d + j, half + j, 6);
      for (int i = 0; i < 6; ++i) input_line(half + 6 * i, d + 6 * i, 1);
      float* to = v + (block * t.capacity + tile) * kBlock;
      for (int i = 0; i < 36; ++i) store(to + i * component, d[i]);
    });
  }
}

template <int Outputs>
void output_of(const WinogradTiles& t, const float* m, const float* bias, bool adds, bool relu,
               float slope, int64_t begin, int64_t end, float* y) {
  const int64_t component = t.some_blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.some_blocks; ++block) {
    const int64_t channels = t.first_block + block;
    const V add = bias ? load(bias + channels * kBlock) : zero();
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const int64_t rows = t.h - at.row < Outputs ? t.h - at.row : Outputs;
      const int64_t columns = t.w - at.column < Outputs ? t.w - at.column : Outputs;
      const float* from = m + (block * t.capacity + tile) * kBlock;
      V d[36], half[6 * Outputs], out[Outputs * Outputs];
      for (int i = 0; i < 36; ++i) d[i] = load(from + i * component);
      for (int j = 0; j < 6; ++j) output_line<Outputs>(d + j, half + j, 6, 6);
      for (int i = 0; i < Outputs; ++i) output_line<Outputs>(half + 6 * i, out + Outputs * i, 1, 1);
      float* plane = y + (at.image * t.blocks + channels) * t.h * t.w * kBlock;
      for (int64_t i = 0; i < rows; ++i) {
        float* line = plane + ((at.row + i) * t.w + at.column) * kBlock;
        for (int64_t j = 0; j < columns; ++j) {
          V value = out[Outputs * i + j] + add;
          if (adds) value += load(line + j * kBlock);
          if (relu) {
            // Slope 0 is no factor: -inf becomes 0, NaN stays.
            const V low = slope != 0.0F ? value * all(slope) : zero();
            value = hn::IfThenElse(hn::Lt(value, zero()), low, value);
          }
          store(line + j * kBlock, value);
        }
      }
    });
  }
}

void output(const WinogradTiles& t, const float* m, const float* bias, bool adds, bool relu,
            float slope, int64_t begin, int64_t end, float* y) {
  t.outputs == 4 ? output_of<4>(t, m, bias, adds, relu, slope, begin, end, y)
                 : output_of<2>(t, m, bias, adds, relu, slope, begin, end, y);
}

template <int Outputs>
void output_gradient_of(const WinogradTiles& t, const float* dy, int64_t begin, int64_t end,
                        float* dm) {
  const int64_t component = t.some_blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.some_blocks; ++block) {
    const int64_t channels = t.first_block + block;
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const float* plane = dy + (at.image * t.blocks + channels) * t.h * t.w * kBlock;
      V d[Outputs * Outputs], half[6 * Outputs], out[36];
      for (int i = 0; i < Outputs; ++i) {
        for (int j = 0; j < Outputs; ++j) {
          const int64_t r = at.row + i, c = at.column + j;
          d[Outputs * i + j] = r < t.h && c < t.w ? load(plane + (r * t.w + c) * kBlock) : zero();
        }
      }
      V sum = d[0];
      for (int i = 1; i < Outputs * Outputs; ++i) sum += d[i];
      for (int j = 0; j < Outputs; ++j) gradient_line<Outputs>(d + j, half + j, Outputs, Outputs);
      for (int i = 0; i < 6; ++i) gradient_line<Outputs>(half + Outputs * i, out + 6 * i, 1, 1);
      float* to = dm + (block * t.capacity + tile) * kBlock;
      for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
      store(to + 36 * component, sum);
    });
  }
}

void output_gradient(const WinogradTiles& t, const float* dy, int64_t begin, int64_t end,
                     float* dm) {
  t.outputs == 4 ? output_gradient_of<4>(t, dy, begin, end, dm)
                 : output_gradient_of<2>(t, dy, begin, end, dm);
}

template <int Taps>
void weights_of(const float* w, int64_t outputs, int64_t inputs, bool turned, int64_t begin,
                int64_t end, float* u) {
  constexpr int kTaps = Taps * Taps;
  // `turned` weights are stored with what are inputs here as their outputs.
  const int64_t out_stride = turned ? kTaps : inputs * kTaps;
  const int64_t in_stride = turned ? outputs * kTaps : kTaps;
  const int64_t padded = (inputs + kBlock - 1) / kBlock * kBlock;
  const int64_t component = (outputs + kBlock - 1) / kBlock * padded * kBlock;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t lanes = outputs - block * kBlock < kBlock ? outputs - block * kBlock : kBlock;
    float taps[kTaps * kTurned][kBlock] = {};
    for (int64_t in = 0; in < padded; ++in) {
      // Of an output, the taps of successive inputs lie side by side; of turned ones, those of one.
      const int64_t together = turned ? 1 : kTurned;
      if (in < inputs && in % together == 0) {
        const int64_t ready = inputs - in < together ? inputs - in : together;
        transpose(w + block * kBlock * out_stride + in * in_stride, out_stride, taps[0], kBlock,
                  lanes, kTaps * ready);
      }
      const float(*from)[kBlock] = taps + in % together * kTaps;
      V g[kTaps], half[6 * Taps], out[36];
      for (int i = 0; i < kTaps; ++i)
        g[i] = in < inputs ? load(from[turned ? kTaps - 1 - i : i]) : zero();
      for (int j = 0; j < Taps; ++j) weights_line<Taps>(g + j, half + j, Taps, Taps);
      for (int i = 0; i < 6; ++i) weights_line<Taps>(half + Taps * i, out + 6 * i, 1, 1);
      float* to = u + (block * padded + in) * kBlock;
      for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
    }
  }
}

void weights(const float* w, int taps, int64_t outputs, int64_t inputs, bool turned, int64_t begin,
             int64_t end, float* u) {
  taps == 3 ? weights_of<3>(w, outputs, inputs, turned, begin, end, u)
            : weights_of<5>(w, outputs, inputs, turned, begin, end, u);
}

template <int Taps>
void weights_gradient_of(const float* du, int64_t outputs, int64_t inputs, bool add, int64_t begin,
                         int64_t end, float* dw) {
  constexpr int kTaps = Taps * Taps;
  const int64_t padded = (inputs + kBlock - 1) / kBlock * kBlock;
  const int64_t component = (outputs + kBlock - 1) / kBlock * padded * kBlock;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t lanes = outputs - block * kBlock < kBlock ? outputs - block * kBlock : kBlock;
    float taps[kTaps * kTurned][kBlock], rows[kBlock * kTaps * kTurned];
    for (int64_t in = 0; in < inputs; ++in) {
      const float* from = du + (block * padded + in) * kBlock;
      V u[36], half[6 * Taps], g[kTaps];
      for (int i = 0; i < 36; ++i) u[i] = load(from + i * component);
      for (int j = 0; j < 6; ++j) weights_gradient_line<Taps>(u + j, half + j, 6, 6);
      for (int i = 0; i < Taps; ++i) weights_gradient_line<Taps>(half + 6 * i, g + Taps * i, 1, 1);
      const int64_t at = in % kTurned, ready = kTaps * (at + 1);
      for (int i = 0; i < kTaps; ++i) store(taps[kTaps * at + i], g[i]);
      if (at + 1 < kTurned && in + 1 < inputs) continue;
      float* const to = dw + (block * kBlock * inputs + in - at) * kTaps;
      if (!add) {
        transpose(taps[0], kBlock, to, inputs * kTaps, ready, lanes);
        continue;
      }
      transpose(taps[0], kBlock, rows, ready, ready, lanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        for (int64_t i = 0; i < ready; ++i) to[lane * inputs * kTaps + i] += rows[lane * ready + i];
      }
    }
  }
}

void weights_gradient(const float* du, int taps, int64_t outputs, int64_t inputs, bool add,
                      int64_t begin, int64_t end, float* dw) {
  taps == 3 ? weights_gradient_of<3>(du, outputs, inputs, add, begin, end, dw)
            : weights_gradient_of<5>(du, outputs, inputs, add, begin, end, dw);
}

template <int P>
HWY_INLINE void clear(V (&sum)[kRows][P]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int p = 0; p < P; ++p) sum[r][p] = zero();
  }
}

/// kRows rows of P blocks: sums over `outer` runs of Inner steps. A step's factors of row r are
/// at a[r * row] and advance by `step`; a run begins `run` after the last. Block p's vectors are
/// at b + p * b_block, one a step.
template <int P, int Inner>
HWY_INLINE void multiply_rows(int64_t outer, const float* a, int64_t row, int64_t step, int64_t run,
                              const float* b, int64_t b_block, V (&sum)[kRows][P]) {
  for (int64_t o = 0; o < outer; ++o) {
#pragma GCC unroll 16
    for (int i = 0; i < Inner; ++i) {
      V factor[P];
#pragma GCC unroll 6
      for (int p = 0; p < P; ++p) factor[p] = load(b + p * b_block + i * kBlock);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V one = all(a[r * row + i * step]);
#pragma GCC unroll 6
        for (int p = 0; p < P; ++p) sum[r][p] = hn::MulAdd(one, factor[p], sum[r][p]);
      }
    }
    a += run;
    b += Inner * kBlock;
  }
}

template <int P>
void multiply_blocks(int64_t tiles, int64_t capacity, int64_t in_blocks, const float* v,
                     const float* u, float* m) {
  const int64_t u_block = in_blocks * kBlock * kBlock;
  for (int64_t tile = 0; tile < tiles; tile += kRows) {
    V sum[kRows][P];
    clear<P>(sum);
    multiply_rows<P, kBlock>(in_blocks, v + tile * kBlock, kBlock, 1, capacity * kBlock, u, u_block,
                             sum);
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < kRows; ++r) store(m + (p * capacity + tile + r) * kBlock, sum[r][p]);
    }
  }
}

/// multiply_blocks<blocks>(...), for up to Most.
template <int Most = kMostBlocks, class... Args>
void multiply_some(int blocks, Args... args) {
  if (blocks == Most) return multiply_blocks<Most>(args...);
  if constexpr (Most > 1) multiply_some<Most - 1>(blocks, args...);
}

void multiply(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin, int64_t end,
              const float* v, const float* u, float* m) {
  const int64_t u_block = in_blocks * kBlock * kBlock, m_block = capacity * kBlock;
  for (int64_t out = begin; out < end;) {
    const int take = blocks_of(end - out);
    multiply_some(take, tiles, capacity, in_blocks, v, u + out * u_block, m + out * m_block);
    out += take;
  }
}

template <int P>
void multiply_gradient_blocks(int64_t tiles, int64_t capacity, int64_t in_blocks, const float* v,
                              const float* dm, bool add, float* du) {
  const int64_t du_block = in_blocks * kBlock * kBlock;
  for (int64_t first = 0; first < tiles; first += kSummedTiles) {
    const int64_t count = tiles - first < kSummedTiles ? tiles - first : kSummedTiles;
    const bool adds = add || first > 0;
    for (int64_t in = 0; in < in_blocks * kBlock; in += kRows) {
      const float* const from = v + (in / kBlock * capacity + first) * kBlock + in % kBlock;
      V sum[kRows][P];
      clear<P>(sum);
      multiply_rows<P, 1>(count, from, 1, 0, kBlock, dm + first * kBlock, capacity * kBlock, sum);
      for (int p = 0; p < P; ++p) {
        for (int r = 0; r < kRows; ++r) {
          float* to = du + p * du_block + (in + r) * kBlock;
          store(to, adds ? load(to) + sum[r][p] : sum[r][p]);
        }
      }
    }
  }
}

/// multiply_gradient_blocks<blocks>(...), for up to Most.
template <int Most = kMostBlocks, class... Args>
void multiply_some_gradients(int blocks, Args... args) {
  if (blocks == Most) return multiply_gradient_blocks<Most>(args...);
  if constexpr (Most > 1) multiply_some_gradients<Most - 1>(blocks, args...);
}

void multiply_gradient(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin,
                       int64_t end, const float* v, const float* dm, bool add, float* du) {
  const int64_t du_block = in_blocks * kBlock * kBlock, dm_block = capacity * kBlock;
  for (int64_t out = begin; out < end;) {
    const int take = blocks_of(end - out);
    multiply_some_gradients(take, tiles, capacity, in_blocks, v, dm + out * dm_block, add,
                            du + out * du_block);
    out += take;
  }
}

constexpr WinogradKernels kKernels = {
    kBlock, input, output, output_gradient, weights, weights_gradient, multiply, multiply_gradient,
    kRows};

const WinogradKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const WinogradKernels& winograd_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
