// Softmax losses of some positions, and their gradient, on one thread of the CPU. x, dx:
// (positions, classes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

/// Estimates of exp(loss) - 1 for the label `background`, of the positions [begin, end). With
/// e = exp(loss) - 1 + classes / 2^13, each lies between 0.999 e and 1.063 e; one of a loss that is
/// NaN or above 70 lies above 2^100. `to` begins with that of `begin`.
void estimate_losses(int64_t begin, int64_t end, int64_t classes, int64_t background,
                     const float* x, float* to);

/// log_sum[p] = the logarithm of the sum of exponentials of the scores of p, for the positions p
/// that are listed: the bits of softmax_positions(). `rows` is scratch memory.
void log_sums_of(std::span<const int64_t> positions, int64_t classes, const float* x,
                 std::vector<float>& rows, double* log_sum);

/// dx[p, c] = scale * (exp(x[p, c] - log_sum[p]) - (1 if c is the label of p)) for the `count`
/// positions p that are listed.
void score_gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
                     const float* x, const double* log_sum, const int32_t* labels, float* dx);

}  // namespace crema
