// Loops over classes, on vectors of double.
#pragma once

#include <cstdint>

namespace crema {

/// to[i] = exp(a[i] + b[i] - base); b may be null
void exp_of_sums(int64_t count, const double* a, const double* b, double base, double* to);
/// to[i] = base + a[i] + log(x[i])
void log_and_add(int64_t count, const double* x, const double* a, double base, double* to);
/// to (count) = x (count) * matrix (count, count)
void times_matrix(int64_t count, const double* x, const double* matrix, double* to);
/// to (count) = matrix (count, count) * x (count)
void matrix_times(int64_t count, const double* matrix, const double* x, double* to);
/// to[i] += factor * x[i]
void add_scaled(int64_t count, double factor, const double* x, double* to);
/// best[j] = the largest x[i] + matrix[i][j], from[j] the lowest such i
void best_of_columns(int64_t count, const double* x, const double* matrix, double* best,
                     double* from);

}  // namespace crema
