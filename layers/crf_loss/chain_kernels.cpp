#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/crf_loss/chain_kernels.cpp"
#include "layers/crf_loss/chain_kernels.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Doubles = hn::ScalableTag<double>;
using V = crema::HWY_NAMESPACE::Value<Doubles>;

HWY_FLATTEN void exp_sums(int64_t count, const double* a, const double* b, double base,
                          double* to) {
  const Doubles d;
  each_vector(d, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    V x = V(load(d, lanes, a + i)) - V(base);
    if (b != nullptr) x = x + V(load(d, lanes, b + i));
    store(d, lanes, exp(x).raw, to + i);
  });
}

HWY_FLATTEN void log_add(int64_t count, const double* x, const double* a, double base, double* to) {
  const Doubles d;
  each_vector(d, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V sum = V(base) + V(load(d, lanes, a + i)) + log(V(load(d, lanes, x + i)));
    store(d, lanes, sum.raw, to + i);
  });
}

HWY_FLATTEN void vector_times_matrix(int64_t count, const double* x, const double* matrix,
                                     double* to) {
  const Doubles d;
  each_vector(d, count, [&](int64_t j, auto lanes) CREMA_LANES_LAMBDA {
    V sum(0);
    for (int64_t i = 0; i < count; ++i)
      sum = sum + V(x[i]) * V(load(d, lanes, matrix + i * count + j));
    store(d, lanes, sum.raw, to + j);
  });
}

HWY_FLATTEN void matrix_times_vector(int64_t count, const double* matrix, const double* x,
                                     double* to) {
  const Doubles d;
  for (int64_t i = 0; i < count; ++i) {
    V sum(0);
    each_vector(d, count, [&](int64_t j, auto lanes) CREMA_LANES_LAMBDA {
      sum = sum + V(load(d, lanes, matrix + i * count + j)) * V(load(d, lanes, x + j));
    });
    to[i] = hn::GetLane(hn::SumOfLanes(d, sum.raw));
  }
}

HWY_FLATTEN void add_times(int64_t count, double factor, const double* x, double* to) {
  const Doubles d;
  each_vector(d, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V sum = V(load(d, lanes, to + i)) + V(factor) * V(load(d, lanes, x + i));
    store(d, lanes, sum.raw, to + i);
  });
}

HWY_FLATTEN void column_bests(int64_t count, const double* x, const double* matrix, double* best,
                              double* from) {
  const Doubles d;
  each_vector(d, count, [&](int64_t j, auto lanes) CREMA_LANES_LAMBDA {
    V most = V(x[0]) + V(load(d, lanes, matrix + j)), index(0);
    for (int64_t i = 1; i < count; ++i) {
      const V score = V(x[i]) + V(load(d, lanes, matrix + i * count + j));
      index = select(score > most, V(i), index);
      most = select(score > most, score, most);
    }
    store(d, lanes, most.raw, best + j);
    store(d, lanes, index.raw, from + j);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(exp_sums);
HWY_EXPORT(log_add);
HWY_EXPORT(vector_times_matrix);
HWY_EXPORT(matrix_times_vector);
HWY_EXPORT(add_times);
HWY_EXPORT(column_bests);

}  // namespace

void exp_of_sums(int64_t count, const double* a, const double* b, double base, double* to) {
  HWY_DYNAMIC_DISPATCH(exp_sums)(count, a, b, base, to);
}
void log_and_add(int64_t count, const double* x, const double* a, double base, double* to) {
  HWY_DYNAMIC_DISPATCH(log_add)(count, x, a, base, to);
}
void times_matrix(int64_t count, const double* x, const double* matrix, double* to) {
  HWY_DYNAMIC_DISPATCH(vector_times_matrix)(count, x, matrix, to);
}
void matrix_times(int64_t count, const double* matrix, const double* x, double* to) {
  HWY_DYNAMIC_DISPATCH(matrix_times_vector)(count, matrix, x, to);
}
void add_scaled(int64_t count, double factor, const double* x, double* to) {
  HWY_DYNAMIC_DISPATCH(add_times)(count, factor, x, to);
}
void best_of_columns(int64_t count, const double* x, const double* matrix, double* best,
                     double* from) {
  HWY_DYNAMIC_DISPATCH(column_bests)(count, x, matrix, best, from);
}

}  // namespace crema
#endif
