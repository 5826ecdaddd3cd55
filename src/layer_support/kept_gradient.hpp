// Losses that compute the gradient of their scores in forward and keep it. For sources that include
// layer_support/passes.hpp.
#pragma once

#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"

namespace crema {

/// dx = scale * the gradient.
template <class T>
struct ScaleTo {
  SeedFactor<T> scale;
  const T* from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const { to[i] = scale * from[i]; }
  void on_host(int64_t begin, int64_t end) const {
    const T factor = scale;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) to[i] = factor * from[i];
  }
};

/// For backward: the diff of the scores from the kept gradient.
template <class T>
void write_diff(const ComputeDevice& device, const SeedFactor<T>& scale, const Tensor& gradient,
                Tensor& diff) {
  for_each(device, diff.count(), kElementGrain,
           ScaleTo<T>{scale, device.read<T>(gradient), device.overwrite<T>(diff)});
}

}  // namespace crema
