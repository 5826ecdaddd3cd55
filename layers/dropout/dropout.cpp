#include "layers/dropout/dropout.hpp"

#include <algorithm>

#include "backend/conversion_math.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "kit/pointwise.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kLanes = 16;  // Philox blocks made at once

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
void apply(const DropoutMath& math, const Tensor& from, Tensor& to) {
  if (to.count() == 0) return;
  const T* x = from.host<T>();
  T* y = to.host_overwrite<T>();
  ElementOrder order(to.shape(), to.format());
  int64_t batch = to.shape().dim_or_1(0);
  if (order.same_as(ElementOrder(to.shape(), Format::contiguous))) {
    // Memory has the logical order: a single channel.
    order.channels = order.block = batch = 1;
    order.places = to.count();
  }
  const int64_t padded = order.blocks() * order.block;
  const int64_t tile = order.block <= 16 ? 4096 : 64;  // places whose block stays in the cache
  const int64_t tiles = (order.places + tile - 1) / tile;
  parallel_for(batch * tiles, kElementGrain / (tile * padded), [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / tiles, place = t % tiles * tile;
      const int64_t length = std::min(tile, order.places - place);
      for (int64_t c = 0; c < padded; ++c) {
        const int64_t at = order.index(n, c, place);
        if (c < order.channels) {
          vectorized<apply_mask<T>>(math, (n * order.channels + c) * order.places + place, length,
                                    x + at, y + at, order.block);
        } else {
          for (int64_t i = 0; i < length; ++i) y[at + i * order.block] = T{0};
        }
      }
    }
  });
}

}  // namespace

DropoutLayer::DropoutLayer(const LayerInit& init) : Layer(init) {
  const DropoutParameter& settings = init.param.dropout_param();
  const double ratio = settings.dropout_ratio();
  if (!(ratio >= 0 && ratio < 1))
    throw Error("dropout_ratio ", ratio, " is outside [0, 1); give the share of values to drop");
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
