// Cross entropy of many scores on one thread of the CPU, in f32.
#pragma once

#include <cstdint>

namespace crema {

/// The sum, in double, of the losses of n scores x with targets t; those with the target `ignored`
/// add 0. NaN ignores none.
double cross_entropy(int64_t n, const float* x, const float* t, float ignored);

/// dx = scale * (sigmoid(x) - t), or 0.
void cross_entropy_gradient(int64_t n, float scale, const float* x, const float* t, float ignored,
                            float* dx);

}  // namespace crema
