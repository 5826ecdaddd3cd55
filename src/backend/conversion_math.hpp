// Conversion of a tensor's element type and memory format, and sums of tensors, as bodies of CUDA
// kernels. The CPU has loops of its own, core/convert.cpp, which give the same to the bit.
#pragma once

#include <algorithm>
#include <span>

#include "core/convert.hpp"
#include "core/device.hpp"
#include "core/dispatch.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"

namespace crema {

// Types are known at run time (core/float_values.hpp): T is double where one of them is f64, else
// float.

/// Body for packs of memory of one order.
template <class T>
struct ConvertPack {
  ValuesIn<T> from;
  ValuesOut<T> to;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const { at.store(at.load(from), to); }
};

/// Body for elements of the target's memory in another order; padding becomes zero.
template <class T>
struct ConvertOrdered {
  FastDivision by_block, by_places, by_blocks, by_from_block;
  int64_t channels, places, from_blocks;
  ValuesIn<T> from;
  ValuesOut<T> to;

  ConvertOrdered(const ElementOrder& from_order, const ElementOrder& to_order, int64_t count,
                 ValuesIn<T> x, ValuesOut<T> y)
      : by_block(to_order.block, count + 1),
        by_places(to_order.places, count + 1),
        by_blocks(to_order.blocks(), count + 1),
        by_from_block(from_order.block, count + 1),
        channels(to_order.channels),
        places(to_order.places),
        from_blocks(from_order.blocks()),
        from(x),
        to(y) {}

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto in_block = by_block.divide(i);
    const auto in_places = by_places.divide(in_block.quotient);
    const auto in_blocks = by_blocks.divide(in_places.quotient);
    const int64_t c = in_blocks.remainder * by_block.divisor() + in_block.remainder;
    const auto there = by_from_block.divide(c);
    const int64_t row = in_blocks.quotient * from_blocks + there.quotient;
    const int64_t at = (row * places + in_places.remainder) * by_from_block.divisor();
    to[i] = c >= channels ? T{0} : from[at + there.remainder];
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

/// Body for packs of memory: the sum of all terms, rounded once.
template <class T>
struct SumPack {
  ValuesIn<T> terms[DeviceBackend::kMostTerms];
  int count;
  ValuesOut<T> sum;

  SumPack(std::span<const void* const> arrays, Stored stored, void* to)
      : count(static_cast<int>(arrays.size())), sum(to, stored) {
    if (count < 1 || arrays.size() > DeviceBackend::kMostTerms)
      throw Error("a device adds up 1 to ", DeviceBackend::kMostTerms, " tensors at once, not ",
                  arrays.size());
    for (size_t k = 0; k < arrays.size(); ++k) terms[k] = ValuesIn<T>(arrays[k], stored);
  }
  bool are_aligned() const {
    return std::all_of(terms, terms + count, [](const auto& term) { return aligned(term); }) &&
           aligned(sum);
  }

  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    // Two are read at once, as most sums have two terms.
    const auto first = at.fetch(terms[0]), second = at.fetch(terms[count > 1 ? 1 : 0]);
    Pack<T> total = at.value(terms[0], first);
    if (count > 1) total = total + at.value(terms[1], second);
    for (int k = 2; k < count; ++k) total = total + at.load(terms[k]);
    at.store(total, sum);
  }
};

inline bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace crema
