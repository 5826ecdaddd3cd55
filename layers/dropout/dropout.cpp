// Dropout: zeroes elements at random while training. See README.md.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/conversion_math.hpp"
#include "backend/cpu/random_words.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "core/move.hpp"
#include "core/transpose.hpp"
#include "crema/random.hpp"
#include "layer_support/dropout_math.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/pointwise_chain.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Body of devices for eight elements in memory that has the logical order: their words are of one
/// Philox block.
template <class T>
struct Drop {
  static constexpr int kGroup = 8;
  DropoutMath math;
  int64_t count;
  bool vectors;
  ValuesIn<T> x;
  ValuesOut<T> y;
  CREMA_FUNCTOR void operator()(int64_t block) const {
    const DropoutWords words = DropoutWords::of(math.key.known(), block);
    constexpr int kStep = kPackSize<T>;
    for (int part = 0; part < kGroup; part += kStep) {
      const int64_t first = kGroup * block + part, left = count - first;
      if (left <= 0) return;
      const int some = left < kStep ? static_cast<int>(left) : kStep;
      const PackAt<T> at{first, some, vectors && some == kStep};
      const Pack<T> from = at.load(x);
      at.store(Pack<T>::each([&](int k) { return math.apply(from.lanes[k], words[part + k]); }), y);
    }
  }
};

/// Body of devices for channels_last memory: eight places of some channels side by side. The words
/// of a channel at these places are of two Philox blocks.
template <class T>
struct DropChannels {
  static constexpr int kPlaces = 8;
  DropoutMath math;
  int64_t channels, places;
  bool vectors;
  FastDivision by_packs, by_parts;  // of the channels; of the places
  ValuesIn<T> x;
  ValuesOut<T> y;

  CREMA_FUNCTOR void operator()(int64_t number) const {
    constexpr int kLanes = kPackSize<T>;
    const auto pack = by_packs.divide(number);
    const auto part = by_parts.divide(pack.quotient);
    const int64_t channel = pack.remainder * kLanes, place = part.remainder * kPlaces;
    const int64_t left = channels - channel;
    const int lanes = left < kLanes ? static_cast<int>(left) : kLanes;
    uint32_t dropped[kPlaces] = {};  // a bit for each channel
    for (int k = 0; k < kLanes; ++k) {
      if (k >= lanes) continue;
      const int64_t logical = (part.quotient * channels + channel + k) * places + place;
      // Two blocks only where eight places begin within one: nowhere in maps of whole eights.
      const int64_t block = logical / 8, skipped = logical % 8;
      uint32_t words = of_block(block) >> skipped;
      if (skipped != 0) words |= of_block(block + 1) << (8 - skipped);
      for (int i = 0; i < kPlaces; ++i) dropped[i] |= (words >> i & 1U) << k;
    }
    for (int i = 0; i < kPlaces; ++i) {
      if (place + i >= places) continue;
      const int64_t first = (part.quotient * places + place + i) * channels + channel;
      const PackAt<T> at{first, lanes, vectors};
      const Pack<T> from = at.load(x);
      at.store(Pack<T>::each([&](int k) {
                 return dropped[i] >> k & 1U ? T{0} : from.lanes[k] * T(math.scale);
               }),
               y);
    }
  }

 private:
  /// A bit for each word of a Philox block: whether it drops.
  CREMA_FUNCTOR uint32_t of_block(int64_t number) const {
    const DropoutWords words = DropoutWords::of(math.key.known(), number);
    uint32_t bits = 0;
    for (int word = 0; word < 8; ++word) {
      bits |= (words[word] < math.threshold ? 1U : 0U) << word;
    }
    return bits;
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

class DropoutLayer : public TwoSidedLayer, public DrawsKey {
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

  bool stores_16_bits() const override { return drops(); }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override {
    if (!drops()) return without_blocks(moving_options(*this, bottom, top, true));
    return TwoSidedLayer::device_options(bottom, top);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    draw_key(device);
    apply(device, bottom[0]->data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    apply(device, top[0]->diff, bottom[0]->diff);
  }

  /// One Philox block makes the key of all others.
  void draw_key(const ComputeDevice& device) override {
    if (math_.threshold > 0) key_.draw(device, *this, stream_, seed_);
  }
  RandomKey key_on(const ComputeDevice& device) const override { return key_.on(device); }
  /// In other formats, the words of elements side by side are of different Philox blocks.
  std::vector<ChainStep> chain_steps(size_t, const Blob& top) override {
    const Shape& shape = top.shape();
    if (!drops() ||
        !ElementOrder(shape, top.data.format()).same_as(ElementOrder(shape, Format::contiguous)))
      return {};
    return {{.kind = ChainStep::Kind::drop,
             .keys = this,
             .threshold = math_.threshold,
             .scale = math_.scale}};
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
    const ElementOrder order(to.shape(), to.format()), logical(to.shape(), Format::contiguous);
    const bool in_order = order.same_as(logical);
    dispatch_float(dtype(), [&]<class T>(T) {
      if (!device.on_host()) {
        const auto x = values_in<T>(device, from);
        const auto y = values_out<T>(device, to);
        const int64_t count = to.count();
        if (in_order) {
          constexpr int kGroup = Drop<T>::kGroup;
          return for_each(device, (count + kGroup - 1) / kGroup, kElementGrain,
                          Drop<T>{math, count, aligned(x, y), x, y});
        }
        constexpr int kLanes = kPackSize<T>, kPlaces = DropChannels<T>::kPlaces;
        const int64_t packs = (order.channels + kLanes - 1) / kLanes;
        const int64_t parts = (order.places + kPlaces - 1) / kPlaces;
        const int64_t all = to.shape()[0] * packs * parts;
        return for_each(
            device, all, kElementGrain,
            DropChannels<T>{math, order.channels, order.places,
                            aligned(x, y) && order.channels % kLanes == 0,
                            FastDivision(packs, all + 1), FastDivision(parts, all + 1), x, y});
      }
      const T* x = from.read<T>();
      T* y = to.overwrite<T>();
      in_order ? drop_in_order(math, to.count(), x, y)
               : drop_by_channels(math, order, to.shape().dim_or_1(0), x, y);
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
