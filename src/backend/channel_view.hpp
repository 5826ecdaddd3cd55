// Memory seen as (outer, channels, inner), for passes in which each channel has coefficients or
// sums of its own.
#pragma once

#include "core/functor.hpp"

namespace crema {

struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  CREMA_FUNCTOR int64_t each() const { return outer * inner; }
  CREMA_FUNCTOR int64_t count() const { return outer * channels * inner; }
  /// Place of value i of [0, each()) of channel c.
  CREMA_FUNCTOR int64_t at(int64_t c, int64_t i) const {
    return (i / inner * channels + c) * inner + i % inner;
  }
  CREMA_FUNCTOR int64_t channel_of(int64_t place) const { return place / inner % channels; }
};

/// A body over the places of a view as one over indices.
template <class Body>
struct ByPlace {
  ChannelView view;
  Body body;
  CREMA_FUNCTOR void operator()(int64_t place) const { body(place, view.channel_of(place)); }
};

/// Two sums of a channel.
struct SumPair {
  double first = 0, second = 0;

  CREMA_FUNCTOR void operator+=(const SumPair& added) {
    first += added.first;
    second += added.second;
  }
};

/// Term for channel sums: the value itself.
template <class T>
struct ValueTerm {
  const T* x;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t /*channel*/) const {
    return {static_cast<double>(x[place]), 0};
  }
};

}  // namespace crema
