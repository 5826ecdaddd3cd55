// Terms and ends of sums that several rooms have.
#pragma once

#include "backend/channel_view.hpp"

namespace crema {

/// Term of sum() and of position_sums(): the value itself.
template <class T>
struct Value {
  const T* from;
  CREMA_FUNCTOR double operator()(int64_t place) const { return static_cast<double>(from[place]); }
};

/// End of position_sums(): element i becomes factor * the sum.
template <class T>
struct StoreSum {
  double factor;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i, double sum) const {
    to[i] = static_cast<T>(factor * sum);
  }
};

/// End of channel_sums(): the gradient of a parameter, one a channel, grows by the first sum.
template <class T>
struct AddToGradient {
  T* gradient;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    gradient[c] += static_cast<T>(sums.first);
  }
};

}  // namespace crema
