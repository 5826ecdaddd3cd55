#include "net/accumulate.hpp"

#include <algorithm>
#include <array>

#include "backend/conversion_math.hpp"
#include "backend/cpu/simd.hpp"
#include "backend/device.hpp"
#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "core/half.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kBlock = 2048;

template <class T>
[[gnu::always_inline]] inline void add_range(const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

[[gnu::always_inline]] inline void widen_and_add(const bfloat16* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += bfloat16_value(x[i].bits);
}

[[gnu::always_inline]] inline void round_range(const float* x, bfloat16* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i].bits = bfloat16_bits(x[i]);
}

void accumulate_on_device(DeviceBackend& backend, std::span<Blob* const> from, Tensor& into) {
  static_assert(Action::kMostParts <= kMostSummed);
  std::array<const void*, Action::kMostParts> parts;
  dispatch_any_float(into.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < from.size(); ++i) parts[i] = from[i]->diff.device<T>(backend);
    backend.add(into.dtype(), into.storage(), std::span(parts).first(from.size()),
                into.device_mut<T>(backend));
  });
}

/// On the host, in f32.
void accumulate_rounded(std::span<Blob* const> from, Tensor& into) {
  std::array<const bfloat16*, Action::kMostParts> parts;
  for (size_t i = 0; i < from.size(); ++i) parts[i] = from[i]->diff.host<bfloat16>();
  bfloat16* const y = into.host_mut<bfloat16>();
  parallel_for(into.storage(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      float sum[kBlock] = {};
      vectorized<widen_and_add>(static_cast<const bfloat16*>(y + at), &sum[0], n);
      for (size_t i = 0; i < from.size(); ++i) vectorized<widen_and_add>(parts[i] + at, &sum[0], n);
      vectorized<round_range>(static_cast<const float*>(&sum[0]), y + at, n);
    }
  });
}

}  // namespace

void accumulate(const Context& context, std::span<Blob* const> from, Tensor& into) {
  if (context.on_gpu()) return accumulate_on_device(context.backend(), from, into);
  if (into.dtype() == DType::bf16) return accumulate_rounded(from, into);
  dispatch_float(into.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::array<const T*, Action::kMostParts> parts;
    for (size_t i = 0; i < from.size(); ++i) parts[i] = from[i]->diff.host<T>();
    T* const y = into.host_mut<T>();
    parallel_for(into.storage(), kGrain, [&](int64_t begin, int64_t end) {
      // A block of the sum stays in the cache until all parts are in it.
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        for (size_t i = 0; i < from.size(); ++i) vectorized<add_range<T>>(parts[i] + at, y + at, n);
      }
    });
  });
}

void seed(const Context& context, Tensor& diff, double value, bool adds) {
  if (diff.count() == 0) return;
  const bool on_device = context.on_gpu() && diff.count() > 1;
  if (!on_device && !adds) return diff.fill(value);
  dispatch_any_float(diff.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (on_device) {
      DeviceBackend& backend = context.backend();
      T* y = adds ? diff.device_mut<T>(backend) : diff.device_overwrite<T>(backend);
      return backend.fill(diff.shape(), {diff.dtype(), diff.format()}, value, adds, y);
    }
    const FillElement<T> body{ElementOrder(diff.shape(), diff.format()),
                              static_cast<Wide<T>>(value), adds, diff.host_mut<T>()};
    parallel_for(diff.storage(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  });
}

}  // namespace crema
