// Bodies of passes for what follows a product: a bias for each channel, then a ReLU.
#pragma once

#include "backend/channel_view.hpp"

namespace crema {

#include "backend/relu_math.hpp"

/// y = relu(y + bias); bias may be null. A slope of 1 stands for no ReLU.
template <class T>
struct AddBias {
  const T* bias;
  ReLUMath relu;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    y[i] = relu.forward(y[i] + (bias ? bias[c] : T{0}));
  }
};

/// dx = dy through the ReLU that gave y; dx may be dy.
template <class T>
struct UndoReLU {
  ReLUMath relu;
  const T* dy;
  const T* y;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const { dx[i] = relu.backward(dy[i], T{0}, y[i]); }
};

/// sum = beta * sum + the first sum of the channel.
template <class T>
struct AccumulateSum {
  T beta;
  T* sum;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    // 0 * NaN is NaN, so what is to be overwritten is not read.
    const double before = beta == T{0} ? 0 : static_cast<double>(beta * sum[c]);
    sum[c] = static_cast<T>(before + sums.first);
  }
};

}  // namespace crema
