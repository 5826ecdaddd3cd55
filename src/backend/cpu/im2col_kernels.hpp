// The inner loops of our convolution over columns (im2col_convolutions.cpp), in f32 by Highway.
#pragma once

#include <cstdint>

namespace crema {

/// Elements of an image that become `count` adjacent elements of a row of a matrix.
struct GatheredRun {
  int64_t from;  // in the image, from the origin of the row
  int64_t to;    // in the row
  int64_t count;
};

/// Copies runs of elements between an image and the rows of a matrix: element i of a run of row r
/// is image[origins[r] + run.from + i * step] and matrix[r * row + run.to + i].
struct GatheredRows {
  const int64_t* origins;  // one entry a row
  int64_t rows;
  const GatheredRun* runs;  // of every row, in ascending order of `to`
  int64_t run_count;
  int64_t step;
  int64_t row;
  int64_t apart = 1;  // rows r and r + apart add to different places; only speed depends on it
};

/// Elements behind the last one of a run that gathering may read.
inline constexpr int64_t kGatherSlack = 64;

/// out[m * out_row + l] = finish(bias[m] + sum over i of
///                               a[a_rows[m] + a_steps[i]] * b[b_steps[i] + l])
///
/// for `rows` rows m, `length` steps i and the lanes l of a few vectors. The vectors of b are read
/// whole.
struct PanelProduct {
  const float* a;
  const int64_t *a_rows, *a_steps;
  const float* b;
  const int64_t* b_steps;
  int64_t rows, length, lanes;
  float* out;
  int64_t out_row;
  const float* bias = nullptr;  // null: 0
  bool adds = false;            // to what is in `out`
  bool relu = false;            // finish: a ReLU with this slope for negative values
  float slope = 0;
};

struct Im2colKernels {
  int64_t width;  // lanes of a vector
  int64_t lanes;  // the most lanes of a PanelProduct
  /// Writes the elements of the matrix that runs name.
  void (*gather)(const GatheredRows& rows, const float* image, float* matrix);
  /// Adds the matrix to the image.
  void (*scatter)(const GatheredRows& rows, const float* matrix, float* image);
  void (*multiply)(const PanelProduct& product);
  /// Adds the sum of each row of a dense matrix (rows, count) to `sums`.
  void (*add_row_sums)(const float* matrix, int64_t rows, int64_t count, double* sums);
};

/// For the instructions that this processor has.
const Im2colKernels& im2col_kernels();

}  // namespace crema
