// Dropout: zeroes elements at random while training. See README.md.
#include <algorithm>

#include "backend/conversion_math.hpp"
#include "core/move.hpp"
#include "core/philox.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"
#include "kit/options.hpp"
#include "kit/passes.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Whether an element is dropped depends on its logical index and the key alone: not on the memory
/// format, the device or the number of threads. Element i takes word i % 4 of Philox block i / 4.
/// The mask is never stored: backward makes it again.
struct DropoutMath {
  uint32_t key0 = 0, key1 = 0;  // from (seed, layer, iteration, pass)
  uint32_t threshold = 0;       // words below it drop: ratio * 2^32, 0 in TEST
  float scale = 1;              // of what stays

  [[gnu::always_inline]] CREMA_FUNCTOR PhiloxBlock words(uint64_t block) const {
    return philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                        key0, key1);
  }

  /// x -> y in forward, dy -> dx in backward.
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T apply(T x, uint32_t word) const {
    return word >= threshold ? x * T(scale) : T{0};
  }
};

/// Body of devices for groups of elements in memory whose words are of one Philox block: four where
/// memory has the logical order, else one.
template <class T>
struct Drop {
  DropoutMath math;
  ElementOrder order, logical_order;
  int64_t group, count;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t number) const {
    const int64_t first = group * number;
    const int64_t logical = group == 1 ? order.index_in(logical_order, first) : first;
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(logical / 4));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0; k < group && first + k < count; ++k) {
      y[first + k] = math.apply(x[first + k], words[(logical + k) % 4]);
    }
  }
};

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

/// The same on the host, where many words are made at once.
template <class T>
void drop_on_host(const DropoutMath& math, ElementOrder order, const Tensor& from, Tensor& to) {
  const T* x = from.host<T>();
  T* y = to.host_overwrite<T>();
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

class DropoutLayer : public TwoSidedLayer {
 public:
  /// Error unless 0 <= dropout_ratio < 1.
  explicit DropoutLayer(const LayerInit& init) : TwoSidedLayer(init), stream_(stream_id(name())) {
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
    if (settings.random_seed() >= 0) seed_ = static_cast<uint64_t>(settings.random_seed());
  }

  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = drops() ? static_cast<double>(bottom[0]->count()) : 0;
    return {n, n};
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return same_format_options(bottom, top, dtype(), true);
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    // One Philox block makes the key of all others.
    Random random(seed_.value_or(run().seed), stream_ + run().pass, run().iteration);
    math_.key0 = random.next_u32();
    math_.key1 = random.next_u32();
    apply(side, bottom[0]->data, top[0]->data);
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    apply(side, top[0]->diff, bottom[0]->diff);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return drops() ? InPlace::overwrite : InPlace::alias;
  }

 private:
  /// False where the values pass through, as in TEST they mostly do.
  bool drops() const { return math_.threshold > 0 || math_.scale != 1; }

  /// With the mask of the last forward pass.
  void apply(const Side& side, const Tensor& from, Tensor& to) const {
    if (!drops()) return copy(side, from, to);
    if (to.count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const ElementOrder order(to.shape(), to.format()), logical(to.shape(), Format::contiguous);
      if (side.device() == nullptr) return drop_on_host<T>(math_, order, from, to);
      const int64_t count = to.count(), group = order.same_as(logical) ? 4 : 1;
      for_each(
          side, (count + group - 1) / group, kElementGrain,
          Drop<T>{math_, order, logical, group, count, side.read<T>(from), side.overwrite<T>(to)});
    });
  }

  DropoutMath math_;
  uint64_t stream_;               // of the layer's name
  std::optional<uint64_t> seed_;  // random_seed
};

}  // namespace

void register_dropout(Registry& registry) { add_two_sided<DropoutLayer>(registry, "Dropout"); }

}  // namespace crema
