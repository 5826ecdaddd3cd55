// Maps whose channels are multiplied by a factor each, one for each sample and channel. Sources
// include layer_support/passes.hpp themselves, so that nvcc compiles them.
#pragma once

#include <algorithm>

#include "backend/channel_view.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "core/functor.hpp"
#include "crema/layout.hpp"
#include "crema/shape.hpp"

namespace crema {

/// The scale of element i is scales[i / block * step + i % step]: a scale covers `block` elements
/// one behind the other (contiguous, step 1), or every step-th one of a block (channels_last).
struct ScaleOf {
  int64_t block = 1, step = 1;

  ScaleOf() = default;
  /// Of maps N x C x ..., in a format that is not blocked; the scales are N x C.
  ScaleOf(const Shape& maps, Format format)
      : block(std::max<int64_t>(maps.count(format == Format::channels_last ? 1 : 2), 1)),
        step(format == Format::channels_last ? maps[1] : 1) {}
  CREMA_FUNCTOR int64_t operator()(int64_t i) const { return i / block * step + i % step; }
};

/// y = scale * x + z; z may be null: 0, and y may be z.
template <class T>
struct ScaleAndAdd {
  ScaleOf scale_of;
  const T *scales, *x, *z;
  T* y;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    y[i] = scales[scale_of(i)] * x[i] + (z ? z[i] : T{0});
  }
  void on_host(int64_t begin, int64_t end) const {
    const int64_t block = scale_of.block, step = scale_of.step;
    for (int64_t i = begin; i < end;) {
      const int64_t first = scale_of(i);
      const int64_t rest = step == 1 ? block - i % block : step - i % step;
      const int64_t count = std::min(rest, end - i);
      if (step == 1) {
        run(i, count, [scale = scales[first]](int64_t) { return scale; });
      } else {
        run(i, count, [from = scales + first](int64_t k) { return from[k]; });
      }
      i += count;
    }
  }
  template <class Scale>
  void run(int64_t at, int64_t count, const Scale& scale) const {
    const T* const from = x + at;
    T* const to = y + at;
    if (z) {
      const T* const added = z + at;
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) to[k] = scale(k) * from[k] + added[k];
    } else {
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) to[k] = scale(k) * from[k];
    }
  }
};

/// ScaleOf for elements one behind the other: a walk over the channels of a block, each block with
/// scales of its own.
class ScaleWalk {
 public:
  struct Scale {
    int64_t first, in_block;  // the first scale of the block, and the place in it
    ChannelWalk::Channel at;

    CREMA_FUNCTOR int64_t index() const { return first + at.channel; }
  };

  /// `below`: above all elements.
  ScaleWalk(const ScaleOf& of, int64_t below)
      : by_block_(of.block, below),
        step_(of.step),
        channels_(ChannelView{of.block / std::max<int64_t>(of.step, 1), of.step, 1}) {}

  CREMA_FUNCTOR Scale at(int64_t i) const {
    const auto block = by_block_.divide(i);
    return {block.quotient * step_, block.remainder, channels_.at(block.remainder)};
  }
  CREMA_FUNCTOR void next(Scale& scale) const {
    channels_.next(scale.at);
    if (++scale.in_block < by_block_.divisor()) return;
    scale.in_block = 0;
    scale.first += step_;
  }

 private:
  FastDivision by_block_;
  int64_t step_;
  ChannelWalk channels_;
};

/// ScaleAndAdd on a device. What lies behind the last element has no scale.
template <class T>
struct ScaleAndAddPack {
  ScaleWalk walk;
  ValuesIn<T> scales, x, z;
  ValuesOut<T> y;

  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    const auto raw_x = at.fetch(x);
    const auto raw_z = z ? at.fetch(z) : decltype(raw_x){};
    Pack<T> values = at.value(x, raw_x);
    auto here = walk.at(at.first);
    for (int k = 0; k < Pack<T>::kSize; ++k, walk.next(here)) {
      if (k < at.count) values.lanes[k] *= static_cast<T>(scales[here.index()]);
    }
    if (z) values = values + at.value(z, raw_z);
    at.store(values, y);
  }
};

}  // namespace crema
