// Inner loops of RowNormLayer on the CPU in f32, for rows with coefficients for each element.
#pragma once

#include <cstdint>

namespace crema::row_norm {

/// Of a row: what backward reads.
struct Moments {
  double mean, inverse_deviation;
};

/// x and y (n): y = (x - mean) * inverse_deviation * scale + bias. The scale and the bias may be
/// null: 1, 0.
Moments normalize_row(int64_t n, const float* x, double eps, const float* scale, const float* bias,
                      float* y);

/// dx from x and dy (n); dx may be dy, or null where it is not wanted. Unless they are null, adds
/// dy to of_bias, and dy times the normalized x to of_scale.
void normalize_row_backward(int64_t n, const float* x, const float* dy, const float* scale,
                            const Moments& moments, float* dx, float* of_scale, float* of_bias);

}  // namespace crema::row_norm
