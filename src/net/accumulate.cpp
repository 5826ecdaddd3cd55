#include "net/accumulate.hpp"

#include <algorithm>
#include <array>

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

void accumulate(Context& context, std::span<Blob* const> from, Tensor& into) {
  if (into.dtype() == DType::bf16) return accumulate_rounded(from, into);
  dispatch_float(into.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (context.on_gpu()) {
      DeviceBackend& backend = context.backend();
      for (const Blob* part : from) {
        backend.add(into.storage(), sizeof(T), part->diff.device<T>(backend),
                    into.device_mut<T>(backend));
      }
      return;
    }
    std::array<const T*, Action::kMostParts> parts;
    for (size_t i = 0; i < from.size(); ++i) parts[i] = from[i]->diff.host<T>();
    T* const y = into.host_mut<T>();
    parallel_for(into.storage(), kGrain, [&](int64_t begin, int64_t end) {
      // All parts are added to one block of the sum while the block is in the cache.
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        for (size_t i = 0; i < from.size(); ++i) vectorized<add_range<T>>(parts[i] + at, y + at, n);
      }
    });
  });
}

void add_to_each(Tensor& tensor, double value) {
  if (tensor.count() == 0) return;
  const Shape& shape = tensor.shape();
  const int64_t block = block_of(tensor.format());
  // Order in memory: (rows, blocks of a row, pixels, block). Formats without blocks are one block.
  const bool blocked = block > 1;
  const int64_t rows = blocked ? shape[0] : 1;
  const int64_t channels = blocked ? shape[1] : tensor.count();
  const int64_t width = blocked ? block : channels;
  const int64_t pixels = blocked ? shape.count(2) : 1;
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* y = tensor.host_mut<T>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t first = 0; first < channels; first += width) {
        const int64_t valid = std::min(width, channels - first);
        for (int64_t pixel = 0; pixel < pixels; ++pixel, y += width) {
          for (int64_t c = 0; c < valid; ++c) y[c] += static_cast<T>(value);
        }
      }
    }
  });
}

}  // namespace crema
