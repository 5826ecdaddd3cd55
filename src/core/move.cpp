#include "core/move.hpp"

#include <algorithm>
#include <cstring>

#include "core/convert.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

constexpr int64_t kByteGrain = 65536;
constexpr int64_t kBlock = 2048;  // elements of a sum that stay in the cache

template <class T>
[[gnu::always_inline]] inline void sum_of_two(const T* a, const T* b, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

template <class From, class To>
[[gnu::always_inline]] inline void convert_range(const From* x, To* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = convert_value<To>(x[i]);
}

template <class T>
[[gnu::always_inline]] inline void widen_and_add(const T* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += convert_value<float>(x[i]);
}

/// Terms [at, at + n), n at most kBlock.
template <class T>
void add_block(std::span<const void* const> terms, T* y, int64_t at, int64_t n) {
  const auto term = [&](size_t k) { return static_cast<const T*>(terms[k]) + at; };
  vectorized<sum_of_two<T>>(term(0), term(1), y + at, n);
  for (size_t k = 2; k < terms.size(); ++k) {
    vectorized<sum_of_two<T>>(static_cast<const T*>(y + at), term(k), y + at, n);
  }
}

/// The same for a type of 16 bits: rounded once.
template <class T>
void add_short_block(std::span<const void* const> terms, T* y, int64_t at, int64_t n) {
  const auto term = [&](size_t k) { return static_cast<const T*>(terms[k]) + at; };
  float sum[kBlock];
  vectorized<convert_range<T, float>>(term(0), &sum[0], n);
  for (size_t k = 1; k < terms.size(); ++k) vectorized<widen_and_add<T>>(term(k), &sum[0], n);
  vectorized<convert_range<float, T>>(static_cast<const float*>(&sum[0]), y + at, n);
}
template <>
void add_block<bfloat16>(std::span<const void* const> terms, bfloat16* y, int64_t at, int64_t n) {
  add_short_block(terms, y, at, n);
}
template <>
void add_block<float16>(std::span<const void* const> terms, float16* y, int64_t at, int64_t n) {
  add_short_block(terms, y, at, n);
}

/// At most DeviceBackend::kMostTerms of them.
template <class T>
void add_terms(const ComputeDevice& device, std::span<const Tensor* const> tensors, Tensor& sum) {
  const void* terms[DeviceBackend::kMostTerms];
  for (size_t k = 0; k < tensors.size(); ++k) terms[k] = device.read<T>(*tensors[k]);
  const bool is_term = std::ranges::find(tensors, &sum) != tensors.end();
  T* const y = is_term ? device.change<T>(sum) : device.overwrite<T>(sum);
  const std::span<const void* const> all(terms, tensors.size());
  if (DeviceBackend* backend = device.backend()) {
    return backend->add(sum.dtype(), sum.storage(), all, y);
  }
  parallel_for(sum.storage(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      add_block<T>(all, y, at, std::min(kBlock, end - at));
    }
  });
}

}  // namespace

void copy(const ComputeDevice& device, const Tensor& from, Tensor& to) {
  if (to.same_memory(from) || to.bytes() == 0) return;
  const std::byte* const source = device.read_bytes(from);
  std::byte* const target = device.overwrite_bytes(to);
  if (DeviceBackend* backend = device.backend()) {
    return backend->copy(target, source, to.bytes());
  }
  parallel_for(static_cast<int64_t>(to.bytes()), kByteGrain, [=](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

void add(const ComputeDevice& device, std::span<const Tensor* const> terms, Tensor& sum) {
  if (sum.count() == 0) return;
  if (terms.size() == 1) return copy(device, *terms[0], sum);
  const Tensor* group[DeviceBackend::kMostTerms] = {terms[0]};
  for (size_t next = 1; next < terms.size();) {
    size_t count = 1;
    while (count < DeviceBackend::kMostTerms && next < terms.size()) group[count++] = terms[next++];
    const std::span<const Tensor* const> some(group, count);
    dispatch_any_float(sum.dtype(),
                       [&](auto zero) { add_terms<decltype(zero)>(device, some, sum); });
    group[0] = &sum;
  }
}

void fill_zero(const ComputeDevice& device, Tensor& to) {
  if (to.bytes() == 0) return;
  std::byte* const target = device.overwrite_bytes(to);
  if (DeviceBackend* backend = device.backend()) return backend->fill_zero(target, to.bytes());
  parallel_for(static_cast<int64_t>(to.bytes()), kByteGrain, [=](int64_t begin, int64_t end) {
    std::memset(target + begin, 0, static_cast<size_t>(end - begin));
  });
}

void fill(const ComputeDevice& device, Tensor& to, double value, bool adds) {
  if (to.format() != Format::contiguous)
    throw Error("fill() takes contiguous tensors, not ", to_string(to.format()));
  if (to.count() == 0) return;
  dispatch_float(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const y = adds ? device.change<T>(to) : device.overwrite<T>(to);
    if (DeviceBackend* backend = device.backend()) {
      return backend->fill(to.dtype(), to.count(), value, adds, y);
    }
    const T one = static_cast<T>(value);
    parallel_for(to.count(), kElementGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = adds ? y[i] + one : one;
    });
  });
}

void copy_rows(const ComputeDevice& device, const RowCopy& copy, const std::byte* from,
               std::byte* to) {
  if (copy.rows == 0 || copy.bytes == 0) return;
  if (DeviceBackend* backend = device.backend()) return backend->copy_rows(copy, from, to);
  // Long rows are shared out among threads too.
  const int64_t parts = std::max<int64_t>(copy.bytes / kByteGrain, 1);
  const int64_t grain = kByteGrain / std::max<int64_t>(copy.bytes / parts, 1) + 1;
  parallel_for(copy.rows * parts, grain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / parts, first = copy.bytes * (i % parts) / parts;
      const int64_t last = copy.bytes * (i % parts + 1) / parts;
      std::memcpy(to + row * copy.to_stride + first, from + row * copy.from_stride + first,
                  static_cast<size_t>(last - first));
    }
  });
}

int64_t rows_around(const Shape& shape, Format format, int axis) {
  if (axis == 0) return 1;
  if (format == Format::contiguous) return shape.count(0, axis);
  const bool last = format == Format::channels_last;
  if (axis == 1) return last ? shape[0] * shape.count(2) : shape[0];
  const int64_t blocks = last ? 1 : (shape[1] + block_of(format) - 1) / block_of(format);
  return shape[0] * blocks * shape.count(2, axis);
}

}  // namespace crema
