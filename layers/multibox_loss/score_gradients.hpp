// The gradient of the softmax loss of some positions, on one thread of the CPU.
#pragma once

#include <cstdint>

namespace crema {

/// dx[p, c] = scale * (exp(x[p, c] - log_sum[p]) - (1 if c is the label of p)) for the `count`
/// positions p that are listed. x, dx: (positions, classes).
void score_gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
                     const float* x, const double* log_sum, const int32_t* labels, float* dx);

}  // namespace crema
