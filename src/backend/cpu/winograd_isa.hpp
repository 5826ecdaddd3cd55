// The kernels of winograd_kernels.hpp for vectors of B floats. Included by one file for each
// instruction set, which is compiled with that set's flags: everything is in an unnamed namespace,
// and nothing of the standard library but fixed-width integers is used, so no code of a wide set
// can end up elsewhere.
#pragma once

#include <stdint.h>

#include "backend/cpu/winograd_kernels.hpp"

namespace crema {
namespace {

template <int B>
struct Vector;
template <>
struct Vector<8> {
  typedef float Type __attribute__((vector_size(32)));
  typedef float Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct Vector<16> {
  typedef float Type __attribute__((vector_size(64)));
  typedef float Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
};

template <int B>
struct Kernels {
  using V = typename Vector<B>::Type;
  using Unaligned = typename Vector<B>::Unaligned;

  // The micro-kernel keeps kRows x (up to 3) vectors of sums in registers.
  static constexpr int kRows = B == 16 ? 8 : 4;

  static V load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(float* p, V v) { *reinterpret_cast<Unaligned*>(p) = v; }

  // One dimension of each transform, on vectors that lie `s` apart.
  static void input_line(const V* d, V* out, int s) {
    const V d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
    const V even = d4 - 4.0F * d2, odd = d3 - 4.0F * d1;
    const V even2 = d4 - d2, odd2 = 2.0F * (d3 - d1);
    out[0] = 4.0F * d0 - 5.0F * d2 + d4;
    out[s] = even + odd;
    out[2 * s] = even - odd;
    out[3 * s] = even2 + odd2;
    out[4 * s] = even2 - odd2;
    out[5 * s] = 4.0F * d1 - 5.0F * d3 + d5;
  }

  static void output_line(const V* m, V* out, int s, int t) {
    const V sum12 = m[s] + m[2 * s], difference12 = m[s] - m[2 * s];
    const V sum34 = m[3 * s] + m[4 * s], difference34 = m[3 * s] - m[4 * s];
    out[0] = m[0] + sum12 + sum34;
    out[t] = difference12 + 2.0F * difference34;
    out[2 * t] = sum12 + 4.0F * sum34;
    out[3 * t] = difference12 + 8.0F * difference34 + m[5 * s];
  }

  static void gradient_line(const V* y, V* out, int s, int t) {
    const V y0 = y[0], y1 = y[s], y2 = y[2 * s], y3 = y[3 * s];
    out[0] = y0;
    out[t] = (y0 + y2) + (y1 + y3);
    out[2 * t] = (y0 + y2) - (y1 + y3);
    out[3 * t] = (y0 + 4.0F * y2) + (2.0F * y1 + 8.0F * y3);
    out[4 * t] = (y0 + 4.0F * y2) - (2.0F * y1 + 8.0F * y3);
    out[5 * t] = y3;
  }

  static void weights_line(const V* g, V* out, int s, int t) {
    const V g0 = g[0], g1 = g[s], g2 = g[2 * s];
    const V even = (g0 + g2) * (-1.0F / 6), odd = g1 * (-1.0F / 6);
    const V even2 = g0 * (1.0F / 24) + g2 * (1.0F / 6), odd2 = g1 * (1.0F / 12);
    out[0] = g0 * 0.25F;
    out[t] = even + odd;
    out[2 * t] = even - odd;
    out[3 * t] = even2 + odd2;
    out[4 * t] = even2 - odd2;
    out[5 * t] = g2;
  }

  static void weights_gradient_line(const V* u, V* out, int s, int t) {
    const V sum12 = u[s] + u[2 * s], difference12 = u[2 * s] - u[s];
    const V sum34 = u[3 * s] + u[4 * s], difference34 = u[3 * s] - u[4 * s];
    out[0] = 0.25F * u[0] - sum12 * (1.0F / 6) + sum34 * (1.0F / 24);
    out[t] = difference12 * (1.0F / 6) + difference34 * (1.0F / 12);
    out[2 * t] = (sum34 - sum12) * (1.0F / 6) + u[5 * s];
  }

  /// Where a tile stands.
  struct Place {
    int64_t image, row, column;  // row and column of its first output
  };
  static Place place(const WinogradTiles& t, int64_t tile) {
    const int64_t an_image = t.h_tiles * t.w_tiles, number = t.first + tile;
    const int64_t within = number % an_image;
    return {number / an_image, within / t.w_tiles * 4, within % t.w_tiles * 4};
  }

  static void input(const WinogradTiles& t, const float* x, int64_t begin, int64_t end, float* v) {
    const int64_t component = t.blocks * t.capacity * B;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Place at = place(t, tile);
      const int64_t row = at.row - t.pad_h, column = at.column - t.pad_w;
      const bool inside = row >= 0 && column >= 0 && row + 6 <= t.h && column + 6 <= t.w;
      for (int64_t block = 0; block < t.blocks; ++block) {
        const float* plane = x + (at.image * t.blocks + block) * t.h * t.w * B;
        V d[36], half[36];
        if (inside) {
          for (int i = 0; i < 6; ++i) {
            const float* line = plane + ((row + i) * t.w + column) * B;
            for (int j = 0; j < 6; ++j) d[6 * i + j] = load(line + j * B);
          }
        } else {
          for (int i = 0; i < 6; ++i) {
            for (int j = 0; j < 6; ++j) {
              const int64_t r = row + i, c = column + j;
              const bool there = r >= 0 && r < t.h && c >= 0 && c < t.w;
              d[6 * i + j] = there ? load(plane + (r * t.w + c) * B) : V{};
            }
          }
        }
        for (int j = 0; j < 6; ++j) input_line(d + j, half + j, 6);
        for (int i = 0; i < 6; ++i) input_line(half + 6 * i, d + 6 * i, 1);
        float* to = v + (block * t.capacity + tile) * B;
        for (int i = 0; i < 36; ++i) store(to + i * component, d[i]);
      }
    }
  }

  static void output(const WinogradTiles& t, const float* m, const float* bias, bool adds,
                     bool relu, float slope, int64_t begin, int64_t end, float* y) {
    const int64_t component = t.blocks * t.capacity * B;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Place at = place(t, tile);
      const int64_t rows = t.h - at.row < 4 ? t.h - at.row : 4;
      const int64_t columns = t.w - at.column < 4 ? t.w - at.column : 4;
      for (int64_t block = 0; block < t.blocks; ++block) {
        const float* from = m + (block * t.capacity + tile) * B;
        V d[36], half[24], out[16];
        for (int i = 0; i < 36; ++i) d[i] = load(from + i * component);
        for (int j = 0; j < 6; ++j) output_line(d + j, half + j, 6, 6);
        for (int i = 0; i < 4; ++i) output_line(half + 6 * i, out + 4 * i, 1, 1);
        const V add = bias ? load(bias + block * B) : V{};
        float* plane = y + (at.image * t.blocks + block) * t.h * t.w * B;
        for (int64_t i = 0; i < rows; ++i) {
          float* line = plane + ((at.row + i) * t.w + at.column) * B;
          for (int64_t j = 0; j < columns; ++j) {
            V value = out[4 * i + j] + add;
            if (adds) value += load(line + j * B);
            if (relu) {
              // Slope 0 is no factor: -inf becomes 0, NaN stays.
              const V low = slope != 0.0F ? value * slope : value < 0.0F ? V{} : value;
              value = value > 0.0F ? value : low;
            }
            store(line + j * B, value);
          }
        }
      }
    }
  }

  static void output_gradient(const WinogradTiles& t, const float* dy, int64_t begin, int64_t end,
                              float* dm) {
    const int64_t component = t.blocks * t.capacity * B;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Place at = place(t, tile);
      for (int64_t block = 0; block < t.blocks; ++block) {
        const float* plane = dy + (at.image * t.blocks + block) * t.h * t.w * B;
        V d[16], half[24], out[36];
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) {
            const int64_t r = at.row + i, c = at.column + j;
            d[4 * i + j] = r < t.h && c < t.w ? load(plane + (r * t.w + c) * B) : V{};
          }
        }
        for (int j = 0; j < 4; ++j) gradient_line(d + j, half + j, 4, 4);
        for (int i = 0; i < 6; ++i) gradient_line(half + 4 * i, out + 6 * i, 1, 1);
        float* to = dm + (block * t.capacity + tile) * B;
        for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
      }
    }
  }

  static void weights(const float* w, int64_t outputs, int64_t inputs, bool turned, int64_t begin,
                      int64_t end, float* u) {
    // `turned` weights are stored with what are inputs here as their outputs.
    const int64_t out_stride = turned ? 9 : inputs * 9, in_stride = turned ? outputs * 9 : 9;
    const int64_t padded = (inputs + B - 1) / B * B;
    const int64_t component = (outputs + B - 1) / B * padded * B;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t lanes = outputs - block * B < B ? outputs - block * B : B;
      for (int64_t in = 0; in < padded; ++in) {
        float* to = u + (block * padded + in) * B;
        V g[9] = {}, half[18], out[36];
        if (in < inputs) {
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const float* from = w + (block * B + lane) * out_stride + in * in_stride;
            for (int i = 0; i < 9; ++i) g[i][lane] = from[turned ? 8 - i : i];
          }
        }
        for (int j = 0; j < 3; ++j) weights_line(g + j, half + j, 3, 3);
        for (int i = 0; i < 6; ++i) weights_line(half + 3 * i, out + 6 * i, 1, 1);
        for (int i = 0; i < 36; ++i) store(to + i * component, out[i]);
      }
    }
  }

  static void weights_gradient(const float* du, int64_t outputs, int64_t inputs, bool add,
                               int64_t begin, int64_t end, float* dw) {
    const int64_t padded = (inputs + B - 1) / B * B;
    const int64_t component = (outputs + B - 1) / B * padded * B;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t lanes = outputs - block * B < B ? outputs - block * B : B;
      for (int64_t in = 0; in < inputs; ++in) {
        const float* from = du + (block * padded + in) * B;
        V u[36], half[18], g[9];
        for (int i = 0; i < 36; ++i) u[i] = load(from + i * component);
        for (int j = 0; j < 6; ++j) weights_gradient_line(u + j, half + j, 6, 6);
        for (int i = 0; i < 3; ++i) weights_gradient_line(half + 6 * i, g + 3 * i, 1, 1);
        for (int64_t lane = 0; lane < lanes; ++lane) {
          float* to = dw + ((block * B + lane) * inputs + in) * 9;
          for (int i = 0; i < 9; ++i) to[i] = (add ? to[i] : 0.0F) + g[i][lane];
        }
      }
    }
  }

  /// kRows rows of P blocks: sums over `outer` runs of Inner steps. A step's factors of row r are
  /// at a[r * row] and advance by `step`; a run begins `run` after the last. Block p's vectors are
  /// at b + p * b_block, one a step.
  template <int P, int Inner>
  static inline __attribute__((always_inline)) void multiply_rows(int64_t outer, const float* a,
                                                                  int64_t row, int64_t step,
                                                                  int64_t run, const float* b,
                                                                  int64_t b_block,
                                                                  V (&sum)[kRows][P]) {
    for (int64_t o = 0; o < outer; ++o) {
#pragma GCC unroll 16
      for (int i = 0; i < Inner; ++i) {
        V factor[P];
#pragma GCC unroll 3
        for (int p = 0; p < P; ++p) factor[p] = load(b + p * b_block + i * B);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const V one = a[r * row + i * step] - V{};
#pragma GCC unroll 3
          for (int p = 0; p < P; ++p) sum[r][p] += one * factor[p];
        }
      }
      a += run;
      b += Inner * B;
    }
  }

  template <int P>
  static void multiply_blocks(int64_t tiles, int64_t capacity, int64_t in_blocks, const float* v,
                              const float* u, float* m) {
    const int64_t u_block = in_blocks * B * B;
    for (int64_t tile = 0; tile < tiles; tile += kRows) {
      V sum[kRows][P] = {};
      multiply_rows<P, B>(in_blocks, v + tile * B, B, 1, capacity * B, u, u_block, sum);
      for (int p = 0; p < P; ++p) {
        for (int r = 0; r < kRows; ++r) store(m + (p * capacity + tile + r) * B, sum[r][p]);
      }
    }
  }

  static void multiply(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin,
                       int64_t end, const float* v, const float* u, float* m) {
    const int64_t u_block = in_blocks * B * B, m_block = capacity * B;
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
  static void multiply_gradient_blocks(int64_t tiles, int64_t capacity, int64_t in_blocks,
                                       const float* v, const float* dm, bool add, float* du) {
    const int64_t du_block = in_blocks * B * B;
    for (int64_t in = 0; in < in_blocks * B; in += kRows) {
      V sum[kRows][P] = {};
      multiply_rows<P, 1>(tiles, v + in / B * capacity * B + in % B, 1, 0, B, dm, capacity * B,
                          sum);
      for (int p = 0; p < P; ++p) {
        for (int r = 0; r < kRows; ++r) {
          float* to = du + p * du_block + (in + r) * B;
          store(to, add ? load(to) + sum[r][p] : sum[r][p]);
        }
      }
    }
  }

  static void multiply_gradient(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin,
                                int64_t end, const float* v, const float* dm, bool add, float* du) {
    const int64_t du_block = in_blocks * B * B, dm_block = capacity * B;
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

  static constexpr WinogradKernels table() {
    return {B,        input,
            output,   output_gradient,
            weights,  weights_gradient,
            multiply, multiply_gradient,
            kRows};
  }
};

}  // namespace
}  // namespace crema
