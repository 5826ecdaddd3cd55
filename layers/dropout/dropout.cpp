// Dropout: zeroes elements at random while training. See README.md.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/conversion_math.hpp"
#include "backend/cpu/random_words.hpp"
#include "core/move.hpp"
#include "core/philox.hpp"
#include "core/transpose.hpp"
#include "crema/random.hpp"
#include "layer_support/options.hpp"
#include "layer_support/pass_key.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Whether an element is dropped depends on its logical index and the key alone: not on the memory
/// format, the device or the number of threads. Element i takes the 16 bits number i % 8 of Philox
/// block i / 8. The mask is never stored: backward makes it again.
struct DropoutMath {
  RandomKey key = {};      // from (seed, layer, iteration, pass)
  uint32_t threshold = 0;  // words below it drop: ratio * 2^16, 0 in TEST
  float scale = 1;         // of what stays

  /// x -> y in forward, dy -> dx in backward.
  template <class T>
  CREMA_FUNCTOR T apply(T x, uint32_t word) const {
    return word >= threshold ? x * T(scale) : T{0};
  }
};

/// Body of devices for groups of elements in memory whose words are of one Philox block: eight
/// where memory has the logical order, else one.
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
    const auto block = static_cast<uint64_t>(logical / 8);
    const RandomKey key = math.key.known();
    const PhiloxBlock drawn =
        philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                     key.key0, key.key1);
    const uint32_t pairs[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0; k < group && first + k < count; ++k) {
      const int64_t word = (logical + k) % 8;
      y[first + k] = math.apply(x[first + k], pairs[word / 2] >> (word % 2 * 16) & 0xffff);
    }
  }
};

/// What draw_run() may write before and behind its words.
constexpr int64_t kRoomBefore = 8, kRoomBehind = 8 * kWordBlocks;

/// The words of elements [first, first + n), by logical index.
void draw_run(const DropoutMath& math, int64_t first, int64_t n, uint16_t* words) {
  const int64_t skip = first % 8;
  const int64_t blocks = (skip + n + kRoomBehind - 1) / kRoomBehind * kWordBlocks;
  draw_words(math.key.key0, math.key.key1, first / 8, blocks, words - skip);
}

template <class T>
void apply_mask(const DropoutMath& math, const uint16_t* words, int64_t rows, int64_t n, const T* x,
                T* y, int64_t stride) {
  if constexpr (std::is_same_v<T, float>) {
    apply_words(words, math.threshold, math.scale, rows, n, x, y, stride);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        y[r * stride + i] = math.apply(x[r * stride + i], words[r * n + i]);
      }
    }
  }
}

/// Memory in the logical order.
template <class T>
void drop_in_order(const DropoutMath& math, int64_t count, const T* x, T* y) {
  parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kStep = 1024;
    uint16_t room[kRoomBefore + kStep + kRoomBehind];
    uint16_t* const words = room + kRoomBefore;
    for (int64_t at = begin; at < end; at += kStep) {
      const int64_t n = std::min(kStep, end - at);
      draw_run(math, at, n, words);
      apply_mask(math, words, 1, n, x + at, y + at, n);
    }
  });
}

/// Memory with the channels of a place side by side, in blocks of up to order.block. The words of
/// some channels at some places are drawn in the logical order and transposed.
template <class T>
void drop_by_channels(const DropoutMath& math, const ElementOrder& order, int64_t batch, const T* x,
                      T* y) {
  constexpr int64_t kPlaces = 240, kChannels = 32;
  constexpr int64_t kRow = kPlaces + 8;  // of drawn words: the next row's are drawn behind this one
  const int64_t channels = std::min(order.block, kChannels);
  const int64_t parts = (order.blocks() * order.block + channels - 1) / channels;
  const int64_t tiles = (order.places + kPlaces - 1) / kPlaces;
  const int64_t work = channels * std::min(order.places, kPlaces);
  parallel_for(batch * parts * tiles, kElementGrain / work, [=](int64_t begin, int64_t end) {
    uint16_t room[kRoomBefore + kChannels * kRow + kRoomBehind], words[kPlaces * kChannels];
    uint16_t* const drawn = room + kRoomBefore;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / (parts * tiles), c = t / tiles % parts * channels;
      const int64_t place = t % tiles * kPlaces;
      const int64_t places = std::min(kPlaces, order.places - place);
      // Of a block, padding too; of channels_last's last part, what is left.
      const int64_t wide = std::min(channels, order.block - c % order.block);
      const int64_t present = std::min(wide, order.channels - c);
      const int64_t first = (n * order.channels + c) * order.places + place;
      const bool as_one = tiles == 1 && places <= 64;  // rows follow each other
      if (as_one) {
        draw_run(math, first, present * places, drawn);
      } else {
        for (int64_t k = 0; k < present; ++k) {
          draw_run(math, first + k * order.places, places, drawn + k * kRow);
        }
      }
      if (present < wide) std::fill_n(words, places * wide, uint16_t{0});  // 0 stays 0
      transpose(drawn, as_one ? places : kRow, words, wide, present, places);
      const int64_t at = order.index(n, c, place);
      apply_mask(math, words, places, wide, x + at, y + at, order.block);
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
    const uint32_t threshold =
        std::min(static_cast<uint32_t>(std::lround(ratio * 0x1p16)), 0xffffU);
    const double kept = 1 - threshold / 0x1p16;  // as drawn, so that the mean stays
    if (phase() == Phase::train) {
      math_.threshold = threshold;
      if (settings.scale_train()) math_.scale = static_cast<float>(1 / kept);
    } else if (!settings.scale_train()) {
      math_.scale = static_cast<float>(kept);
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

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    // One Philox block makes the key of all others.
    if (math_.threshold > 0) key_.draw(device, *this, stream_, seed_);
    apply(device, bottom[0]->data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    apply(device, top[0]->diff, bottom[0]->diff);
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
  void apply(const ComputeDevice& device, const Tensor& from, Tensor& to) const {
    if (!drops()) return copy(device, from, to);
    if (to.count() == 0) return;
    DropoutMath math = math_;
    math.key = key_.on(device);
    dispatch_float(dtype(), [&]<class T>(T) {
      const ElementOrder order(to.shape(), to.format()), logical(to.shape(), Format::contiguous);
      const bool in_order = order.same_as(logical);
      const int64_t count = to.count(), group = in_order ? 8 : 1;
      if (device.on_host()) {
        const T* x = from.read<T>();
        T* y = to.overwrite<T>();
        return in_order ? drop_in_order(math, count, x, y)
                        : drop_by_channels(math, order, to.shape().dim_or_1(0), x, y);
      }
      for_each(device, (count + group - 1) / group, kElementGrain,
               Drop<T>{math, order, logical, group, count, device.read<T>(from),
                       device.overwrite<T>(to)});
    });
  }

  DropoutMath math_;  // without the key
  PassKey key_;
  uint64_t stream_;               // of the layer's name
  std::optional<uint64_t> seed_;  // random_seed
};

}  // namespace

void register_dropout(Registry& registry) { add_two_sided<DropoutLayer>(registry, "Dropout"); }

}  // namespace crema
