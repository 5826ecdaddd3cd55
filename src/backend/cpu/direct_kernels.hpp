// The inner loop of our direct convolution: a tile of a matrix product whose left matrix is never
// formed, but read where it lies in the image.
//
//   out[m][n] = finish(out[m][n] + bias[n] + sum over k of a[m][place(k)] * b[k][n])
//
// m: a few rows, each with a base pointer of its own. k: runs of `length` elements that lie `step`
// apart; run r starts at offsets[r]. n: up to kMaxVectors vectors. What rows, k and n are differs
// by pass, see direct_convolutions.cpp.
#pragma once

#include <stdint.h>

namespace crema {

struct DirectTile {
  static constexpr int kMaxRows = 8;

  const float* a[kMaxRows] = {};
  const int64_t* offsets = nullptr;
  int64_t runs = 0, length = 0, step = 1;
  const float* b = nullptr;  // (runs * length, vectors, width)

  /// Added to the sums of every row: a panel's vectors; null: nothing.
  const float* bias = nullptr;

  float* out[kMaxRows] = {};
  int64_t out_vector = 0;  // between a row's vectors
  int rows = 0;            // of the kernel's rows so many are wanted; the others repeat one
  int last_lanes = 0;      // of a row's last vector so many floats are written
  /// What is there counts as another summand, before the ReLU; only the lanes that are written.
  bool adds = false;
  bool relu = false;
  float slope = 0;
};

struct DirectKernels {
  static constexpr int kMaxVectors = 4;

  int width;  // floats a vector
  /// For 1 to kMaxVectors vectors: rows of the kernel, 0 where there is none; and the kernel.
  int rows[kMaxVectors + 1];
  void (*tile[kMaxVectors + 1])(const DirectTile& tile);
  /// The same with half the rows, for what is left over.
  void (*half_tile[kMaxVectors + 1])(const DirectTile& tile);
  /// Copies a vector a pixel, `lanes` floats of it and zeros for the rest, and adds them all up in
  /// `sums` (width floats).
  void (*pack)(const float* from, int64_t from_step, int64_t pixels, int lanes, float* to,
               int64_t to_step, float* sums);
};

/// For the instructions that this processor has.
const DirectKernels& direct_kernels();

}  // namespace crema
