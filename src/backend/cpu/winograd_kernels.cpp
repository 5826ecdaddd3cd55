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

// The micro-kernel keeps kRows x (up to 3) vectors of sums in registers.
constexpr int kRows = kBlock == 16 ? 8 : 4;

/// Inputs whose weights are transposed at once.
constexpr int kTurned = 16;

HWY_INLINE V zero() { return hn::Zero(Floats()); }
HWY_INLINE V all(float value) { return hn::Set(Floats(), value); }
/// v + factor * x
HWY_INLINE V plus(V v, float factor, V x) { return hn::MulAdd(all(factor), x, v); }
HWY_INLINE V load(const float* p) { return hn::LoadU(Floats(), p); }
HWY_INLINE void store(float* p, V v) { hn::StoreU(v, Floats(), p); }

// One dimension of each transform, on vectors that lie `s` apart.
HWY_INLINE void input_line(const V* d, V* out, int s) {
  const V d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
  const V even = plus(d4, -4, d2), odd = plus(d3, -4, d1);
  const V even2 = d4 - d2, odd2 = all(2.0F) * (d3 - d1);
  out[0] = plus(plus(d4, -5, d2), 4, d0);
  out[s] = even + odd;
  out[2 * s] = even - odd;
  out[3 * s] = even2 + odd2;
  out[4 * s] = even2 - odd2;
  out[5 * s] = plus(plus(d5, -5, d3), 4, d1);
}

HWY_INLINE void output_line(const V* m, V* out, int s, int t) {
  const V sum12 = m[s] + m[2 * s], difference12 = m[s] - m[2 * s];
  const V sum34 = m[3 * s] + m[4 * s], difference34 = m[3 * s] - m[4 * s];
  out[0] = m[0] + sum12 + sum34;
  out[t] = plus(difference12, 2, difference34);
  out[2 * t] = plus(sum12, 4, sum34);
  out[3 * t] = plus(difference12, 8, difference34) + m[5 * s];
}

HWY_INLINE void gradient_line(const V* y, V* out, int s, int t) {
  const V y0 = y[0], y1 = y[s], y2 = y[2 * s], y3 = y[3 * s];
  out[0] = y0;
  out[t] = (y0 + y2) + (y1 + y3);
  out[2 * t] = (y0 + y2) - (y1 + y3);
  const V even = plus(y0, 4, y2), odd = plus(all(2.0F) * y1, 8, y3);
  out[3 * t] = even + odd;
  out[4 * t] = even - odd;
  out[5 * t] = y3;
}

HWY_INLINE void weights_line(const V* g, V* out, int s, int t) {
  const V g0 = g[0], g1 = g[s], g2 = g[2 * s];
  const V even = (g0 + g2) * all(-1.0F / 6), odd = g1 * all(-1.0F / 6);
  const V even2 = plus(g0 * all(1.0F / 24), 1.0F / 6, g2), odd2 = g1 * all(1.0F / 12);
  out[0] = g0 * all(0.25F);
  out[t] = even + odd;
  out[2 * t] = even - odd;
  out[3 * t] = even2 + odd2;
  out[4 * t] = even2 - odd2;
  out[5 * t] = g2;
}

HWY_INLINE void weights_gradient_line(const V* u, V* out, int s, int t) {
  const V sum12 = u[s] + u[2 * s], difference12 = u[2 * s] - u[s];
  const V sum34 = u[3 * s] + u[4 * s], difference34 = u[3 * s] - u[4 * s];
  out[0] = plus(plus(all(0.25F) * u[0], -1.0F / 6, sum12), 1.0F / 24, sum34);
  out[t] = plus(difference12 * all(1.0F / 6), 1.0F / 12, difference34);
  out[2 * t] = plus(u[5 * s], 1.0F / 6, sum34 - sum12);
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
  Place at{number / an_image, within / t.w_tiles * 4, within % t.w_tiles * 4};
  for (int64_t tile = begin; tile < end; ++tile) {
    body(tile, at);
    at.column += 4;
    if (at.column < 4 * t.w_tiles) continue;
    at.column = 0;
    at.row += 4;
    if (at.row < 4 * t.h_tiles) continue;
    at.row = 0;
    ++at.image;
  }
}

// The transforms go through one block of channels after the other: its tiles lie side by side in
// each component, and share columns and rows of the image.

void input(const WinogradTiles& t, const float* x, int64_t begin, int64_t end, float* v) {
  const int64_t component = t.blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.blocks; ++block) {
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const int64_t row = at.row - t.pad_h, column = at.column - t.pad_w;
      const bool inside = row >= 0 && column >= 0 && row + 6 <= t.h && column + 6 <= t.w;
      const float* plane = x + (at.image * t.blocks + block) * t.h * t.w * kBlock;
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

void output(const WinogradTiles& t, const float* m, const float* bias, bool adds, bool relu,
            float slope, int64_t begin, int64_t end, float* y) {
  const int64_t component = t.blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.blocks; ++block) {
    const V add = bias ? load(bias + block * kBlock) : zero();
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const int64_t rows = t.h - at.row < 4 ? t.h - at.row : 4;
      const int64_t columns = t.w - at.column < 4 ? t.w - at.column : 4;
      const float* from = m + (block * t.capacity + tile) * kBlock;
      V d[36], half[24], out[16];
      for (int i = 0; i < 36; ++i) d[i] = load(from + i * component);
      for (int j = 0; j < 6; ++j) output_line(d + j, half + j, 6, 6);
      for (int i = 0; i < 4; ++i) output_line(half + 6 * i, out + 4 * i, 1, 1);
      float* plane = y + (at.image * t.blocks + block) * t.h * t.w * kBlock;
      for (int64_t i = 0; i < rows; ++i) {
        float* line = plane + ((at.row + i) * t.w + at.column) * kBlock;
        for (int64_t j = 0; j < columns; ++j) {
          V value = out[4 * i + j] + add;
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

void output_gradient(const WinogradTiles& t, const float* dy, int64_t begin, int64_t end,
                     float* dm) {
  const int64_t component = t.blocks * t.capacity * kBlock;
  for (int64_t block = 0; block < t.blocks; ++block) {
    each_tile(t, begin, end, [&](int64_t tile, const Place& at) {
      const float* plane = dy + (at.image * t.blocks + block) * t.h * t.w * kBlock;
      V d[16], half[24], out[36];
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          const int64_t r = at.row + i, c = at.column + j;
          d[4 * i + j] = r < t.h && c < t.w ? load(plane + (r * t.w + c) * kBlock) : zero();
        }
      }
      for (int j = 0; j < 4; ++j) gradient_line(d + j, half + j, 4, 4);
      for (int i = 0; i < 6; ++i) gradient_line(half + 4 * i, out + 6 * i, 1, 1);
      float* to = dm + (block * t.capacity + tile) * kBlock;
      for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
    });
  }
}

void weights(const float* w, int64_t outputs, int64_t inputs, bool turned, int64_t begin,
             int64_t end, float* u) {
  // `turned` weights are stored with what are inputs here as their outputs.
  const int64_t out_stride = turned ? 9 : inputs * 9, in_stride = turned ? outputs * 9 : 9;
  const int64_t padded = (inputs + kBlock - 1) / kBlock * kBlock;
  const int64_t component = (outputs + kBlock - 1) / kBlock * padded * kBlock;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t lanes = outputs - block * kBlock < kBlock ? outputs - block * kBlock : kBlock;
    float taps[9 * kTurned][kBlock] = {};
    for (int64_t in = 0; in < padded; ++in) {
      // Of an output, the taps of successive inputs lie side by side; of turned ones, those of one.
      const int64_t together = turned ? 1 : kTurned;
      if (in < inputs && in % together == 0) {
        const int64_t ready = inputs - in < together ? inputs - in : together;
        transpose(w + block * kBlock * out_stride + in * in_stride, out_stride, taps[0], kBlock,
                  lanes, 9 * ready);
      }
      const float(*from)[kBlock] = taps + in % together * 9;
      V g[9], half[18], out[36];
      for (int i = 0; i < 9; ++i) g[i] = in < inputs ? load(from[turned ? 8 - i : i]) : zero();
      for (int j = 0; j < 3; ++j) weights_line(g + j, half + j, 3, 3);
      for (int i = 0; i < 6; ++i) weights_line(half + 3 * i, out + 6 * i, 1, 1);
      float* to = u + (block * padded + in) * kBlock;
      for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
    }
  }
}

void weights_gradient(const float* du, int64_t outputs, int64_t inputs, bool add, int64_t begin,
                      int64_t end, float* dw) {
  const int64_t padded = (inputs + kBlock - 1) / kBlock * kBlock;
  const int64_t component = (outputs + kBlock - 1) / kBlock * padded * kBlock;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t lanes = outputs - block * kBlock < kBlock ? outputs - block * kBlock : kBlock;
    float taps[9 * kTurned][kBlock], rows[kBlock * 9 * kTurned];
    for (int64_t in = 0; in < inputs; ++in) {
      const float* from = du + (block * padded + in) * kBlock;
      V u[36], half[18], g[9];
      for (int i = 0; i < 36; ++i) u[i] = load(from + i * component);
      for (int j = 0; j < 6; ++j) weights_gradient_line(u + j, half + j, 6, 6);
      for (int i = 0; i < 3; ++i) weights_gradient_line(half + 6 * i, g + 3 * i, 1, 1);
      const int64_t at = in % kTurned, ready = 9 * (at + 1);
      for (int i = 0; i < 9; ++i) store(taps[9 * at + i], g[i]);
      if (at + 1 < kTurned && in + 1 < inputs) continue;
      float* const to = dw + (block * kBlock * inputs + in - at) * 9;
      if (!add) {
        transpose(taps[0], kBlock, to, inputs * 9, ready, lanes);
        continue;
      }
      transpose(taps[0], kBlock, rows, ready, ready, lanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        for (int64_t i = 0; i < ready; ++i) to[lane * inputs * 9 + i] += rows[lane * ready + i];
      }
    }
  }
}

template <int P>
HWY_INLINE void clear(V (&sum)[kRows][P]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
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
#pragma GCC unroll 3
      for (int p = 0; p < P; ++p) factor[p] = load(b + p * b_block + i * kBlock);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V one = all(a[r * row + i * step]);
#pragma GCC unroll 3
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

void multiply(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin, int64_t end,
              const float* v, const float* u, float* m) {
  const int64_t u_block = in_blocks * kBlock * kBlock, m_block = capacity * kBlock;
  for (int64_t out = begin; out < end;) {
    // Threes, and twos where threes would leave a one.
    const int64_t left = end - out;
    const int64_t take = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
    const float* from = u + out * u_block;
    float* to = m + out * m_block;
    if (take == 3) multiply_blocks<3>(tiles, capacity, in_blocks, v, from, to);
    if (take == 2) multiply_blocks<2>(tiles, capacity, in_blocks, v, from, to);
    if (take == 1) multiply_blocks<1>(tiles, capacity, in_blocks, v, from, to);
    out += take;
  }
}

template <int P>
void multiply_gradient_blocks(int64_t tiles, int64_t capacity, int64_t in_blocks, const float* v,
                              const float* dm, bool add, float* du) {
  const int64_t du_block = in_blocks * kBlock * kBlock;
  for (int64_t in = 0; in < in_blocks * kBlock; in += kRows) {
    V sum[kRows][P];
    clear<P>(sum);
    multiply_rows<P, 1>(tiles, v + in / kBlock * capacity * kBlock + in % kBlock, 1, 0, kBlock, dm,
                        capacity * kBlock, sum);
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < kRows; ++r) {
        float* to = du + p * du_block + (in + r) * kBlock;
        store(to, add ? load(to) + sum[r][p] : sum[r][p]);
      }
    }
  }
}

void multiply_gradient(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin,
                       int64_t end, const float* v, const float* dm, bool add, float* du) {
  const int64_t du_block = in_blocks * kBlock * kBlock, dm_block = capacity * kBlock;
  for (int64_t out = begin; out < end;) {
    const int64_t left = end - out;
    const int64_t take = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
    const float* from = dm + out * dm_block;
    float* to = du + out * du_block;
    if (take == 3) multiply_gradient_blocks<3>(tiles, capacity, in_blocks, v, from, add, to);
    if (take == 2) multiply_gradient_blocks<2>(tiles, capacity, in_blocks, v, from, add, to);
    if (take == 1) multiply_gradient_blocks<1>(tiles, capacity, in_blocks, v, from, add, to);
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
