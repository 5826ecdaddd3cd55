// Conversion of a tensor's element type and memory format, an element of the target at a time: what
// CUDA kernels run. The CPU has loops of its own, core/convert.cpp, which give the same to the bit.
#pragma once

#include <span>

#include "core/convert.hpp"
#include "core/device.hpp"
#include "core/dispatch.hpp"

namespace crema {

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
