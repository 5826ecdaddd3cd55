#include "layers/dropout/dropout.hpp"

#include <algorithm>

#include "core/simd.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "kit/pointwise.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kLanes = 16;      // Philox blocks made at once
constexpr int64_t kPixelTile = 64;  // pixels of a channels_last tensor that stay in the cache

/// Elements [first, first + n) by logical index; they lie `stride` apart from x and y on.
template <class T>
[[gnu::always_inline]] inline void apply_mask(DropoutMath math, int64_t first, int64_t n,
                                              const T* x, T* y, int64_t stride) {
  uint32_t words[4 * kLanes];
  int64_t skip = first % 4;
  for (int64_t done = 0; done < n;) {
    const int64_t block = (first + done) / 4;
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const PhiloxBlock drawn = math.words(static_cast<uint64_t>(block + lane));
      words[4 * lane] = drawn.a;
      words[4 * lane + 1] = drawn.b;
      words[4 * lane + 2] = drawn.c;
      words[4 * lane + 3] = drawn.d;
    }
    const int64_t count = std::min(4 * kLanes - skip, n - done);
    const T* from = x + done * stride;
    T* to = y + done * stride;
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = math.apply(from[i], words[skip + i]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        to[i * stride] = math.apply(from[i * stride], words[skip + i]);
      }
    }
    done += count;
    skip = 0;
  }
}

template <class T>
void apply_contiguous(const DropoutMath& math, int64_t count, const T* x, T* y) {
  parallel_for((count + 3) / 4, kPointwiseGrain / 4, [=](int64_t begin, int64_t end) {
    const int64_t first = 4 * begin;
    vectorized<apply_mask<T>>(math, first, std::min(4 * end, count) - first, x + first, y + first,
                              int64_t{1});
  });
}

/// Layout: (N, pixels, C).
template <class T>
void apply_channels_last(const DropoutMath& math, const Shape& shape, const T* x, T* y) {
  const int64_t channels = shape[1], pixels = shape.count(2);
  const int64_t tiles = (pixels + kPixelTile - 1) / kPixelTile;
  parallel_for(shape[0] * tiles, 1, [=](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t n = tile / tiles, pixel = tile % tiles * kPixelTile;
      const int64_t length = std::min(kPixelTile, pixels - pixel);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = (n * pixels + pixel) * channels + c;
        vectorized<apply_mask<T>>(math, (n * channels + c) * pixels + pixel, length, x + at, y + at,
                                  channels);
      }
    }
  });
}

/// Layout: (N, ceil(C / block), pixels, block).
template <class T>
void apply_blocked(const DropoutMath& math, const Shape& shape, int64_t block, const T* x, T* y) {
  const int64_t channels = shape[1], pixels = shape.count(2);
  const int64_t blocks = (channels + block - 1) / block;
  parallel_for(shape[0] * blocks, 1, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t k = 0; k < block; ++k) {
        const int64_t at = b * pixels * block + k, c = b % blocks * block + k;
        if (c < channels) {
          vectorized<apply_mask<T>>(math, (b / blocks * channels + c) * pixels, pixels, x + at,
                                    y + at, block);
        } else {
          for (int64_t pixel = 0; pixel < pixels; ++pixel) y[at + pixel * block] = T{0};
        }
      }
    }
  });
}

template <class T>
void apply(const DropoutMath& math, const Tensor& from, Tensor& to) {
  const T* x = from.host<T>();
  T* y = to.host_overwrite<T>();
  switch (to.format()) {
    case Format::contiguous:
      return apply_contiguous(math, to.count(), x, y);
    case Format::channels_last:
      return apply_channels_last(math, to.shape(), x, y);
    case Format::blocked8:
    case Format::blocked16:
      return apply_blocked(math, to.shape(), block_of(to.format()), x, y);
  }
}

}  // namespace

DropoutLayer::DropoutLayer(const LayerInit& init) : Layer(init) {
  const DropoutParameter& settings = init.param.dropout_param();
  const double ratio = settings.dropout_ratio();
  require(ratio >= 0 && ratio < 1, "dropout_ratio ", ratio,
          " is outside [0, 1); give the share of values to drop");
  if (phase() == Phase::train) {
    math_.threshold = static_cast<uint32_t>(ratio * 0x1p32);
    if (settings.scale_train()) math_.scale = static_cast<float>(1 / (1 - ratio));
  } else if (!settings.scale_train()) {
    math_.scale = static_cast<float>(1 - ratio);
  }
  stream_ = stream_id(name());
  own_seed_ = settings.random_seed() >= 0;
  seed_ = static_cast<uint64_t>(settings.random_seed());
}

void DropoutLayer::reshape(Blobs bottom, Blobs top) { top[0]->reshape(bottom[0]->shape()); }

Flops DropoutLayer::flops(Blobs bottom, Blobs) const {
  const double n = drops() ? static_cast<double>(bottom[0]->count()) : 0;
  return {n, n};
}

std::vector<Option> DropoutLayer::reference_options(Blobs bottom, Blobs top) const {
  return same_format_options(bottom, top, dtype(), true);
}

const DropoutMath& DropoutLayer::new_mask() {
  // One Philox block makes the key of all others.
  Random random(own_seed_ ? seed_ : run().seed, stream_ + run().pass, run().iteration);
  math_.key0 = random.next_u32();
  math_.key1 = random.next_u32();
  return math_;
}

void DropoutLayer::forward_cpu(Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  Tensor& y = top[0]->data;
  if (!drops()) {
    if (!y.same_memory(x)) y.copy_from(x);
    return;
  }
  new_mask();
  dispatch_float(dtype(), [&](auto zero) { apply<decltype(zero)>(mask(), x, y); });
}

void DropoutLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  const Tensor& dy = top[0]->diff;
  Tensor& dx = bottom[0]->diff;
  if (!drops()) {
    if (!dx.same_memory(dy)) dx.copy_from(dy);
    return;
  }
  dispatch_float(dtype(), [&](auto zero) { apply<decltype(zero)>(mask(), dy, dx); });
}

void register_dropout(Registry& registry);

void register_dropout(Registry& registry) { registry.add<DropoutLayer>("Dropout"); }

}  // namespace crema
