// Conversion of a tensor's element type and memory format, an element of the target at a time: what
// CUDA kernels run. The CPU has loops of its own, core/convert.cpp, which give the same to the bit.
#pragma once

#include <span>

#include "core/convert_value.hpp"
#include "core/device.hpp"
#include "core/dispatch.hpp"
#include "core/functor.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// How elements (n, c, place) lie in memory: channels in blocks of `block`, the last one padded.
/// The contiguous format has blocks of one channel, channels_last one block of all of them.
struct ElementOrder {
  int64_t channels = 1, places = 1, block = 1;

  ElementOrder(const Shape& shape, Format format)
      : channels(shape.dim_or_1(1)), places(shape.rank() > 2 ? shape.count(2) : 1) {
    block = format == Format::channels_last ? channels : block_of(format);
  }

  CREMA_FUNCTOR int64_t blocks() const { return (channels + block - 1) / block; }
  CREMA_FUNCTOR int64_t index(int64_t n, int64_t c, int64_t place) const {
    return ((n * blocks() + c / block) * places + place) * block + c % block;
  }
  /// The channel of element i in memory. At or beyond `channels`: padding.
  CREMA_FUNCTOR int64_t channel_of(int64_t i) const {
    return i / (block * places) % blocks() * block + i % block;
  }
  /// Where `other` has element i, which is no padding.
  CREMA_FUNCTOR int64_t index_in(const ElementOrder& other, int64_t i) const {
    return other.index(i / (block * places * blocks()), channel_of(i), i / block % places);
  }
  /// Whether all elements lie in the same places, padding counted.
  bool same_as(const ElementOrder& other) const {
    return block == other.block || (places == 1 && blocks() * block == channels &&
                                    other.blocks() * other.block == channels);
  }
};

/// Body for elements of the target's memory; padding becomes zero.
template <class To, class From>
struct ConvertElement {
  ElementOrder to_order, from_order;
  bool same_order;
  const From* from;
  To* to;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (same_order) {
      to[i] = convert_value<To>(from[i]);
    } else if (to_order.channel_of(i) >= to_order.channels) {
      to[i] = To{};
    } else {
      to[i] = convert_value<To>(from[to_order.index_in(from_order, i)]);
    }
  }
};

/// In what sums of T are taken.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Body for elements of memory: y = value, or y += value.
template <class T>
struct FillElement {
  T value;
  bool adds;
  T* y;

  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = adds ? y[i] + value : value; }
};

/// Body for elements of memory: the sum of all terms, rounded to T once.
template <class T>
struct SumElement {
  const T* terms[DeviceBackend::kMostTerms];
  size_t count;
  T* sum;

  SumElement(std::span<const void* const> arrays, void* to)
      : count(arrays.size()), sum(static_cast<T*>(to)) {
    if (count < 1 || count > DeviceBackend::kMostTerms)
      throw Error("a device adds up 1 to ", DeviceBackend::kMostTerms, " tensors at once, not ",
                  count);
    for (size_t k = 0; k < count; ++k) terms[k] = static_cast<const T*>(arrays[k]);
  }

  CREMA_FUNCTOR void operator()(int64_t i) const {
    Wide<T> total = convert_value<Wide<T>>(terms[0][i]);
    for (size_t k = 1; k < count; ++k) total += convert_value<Wide<T>>(terms[k][i]);
    sum[i] = convert_value<T>(total);
  }
};

inline bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace crema
