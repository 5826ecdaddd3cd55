// Memory seen as (outer, channels, inner), for passes in which each channel has coefficients or
// sums of its own.
#pragma once

#include "core/fast_division.hpp"
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
};

/// The channels of places one behind the other, with one division for the first of them.
class ChannelWalk {
 public:
  struct Channel {
    int64_t channel, within;  // place in the channel's run
  };

  explicit ChannelWalk(const ChannelView& view)
      : inner_(view.inner < 1 ? 1 : view.inner, view.count() + 1),
        channels_(view.channels < 1 ? 1 : view.channels, view.count() + 1) {}

  CREMA_FUNCTOR Channel at(int64_t place) const {
    const auto run = inner_.divide(place);
    return {run.quotient % channels_, run.remainder};
  }
  CREMA_FUNCTOR void next(Channel& at) const {
    if (++at.within < inner_.divisor()) return;
    at.within = 0;
    if (++at.channel == channels_.divisor()) at.channel = 0;
  }

 private:
  FastDivision inner_, channels_;
};

/// A body over the places of a view as one over indices.
template <class Body>
struct ByPlace {
  ChannelWalk walk;
  Body body;
  ByPlace(const ChannelView& view, const Body& of_place) : walk(view), body(of_place) {}
  CREMA_FUNCTOR void operator()(int64_t place) const { body(place, walk.at(place).channel); }
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
