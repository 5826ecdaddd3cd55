// Noise: adds random numbers to values, as inexact hardware does. See README.md.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/random_words.hpp"
#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "core/philox.hpp"
#include "crema/random.hpp"
#include "layer_support/pass_key.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/noise/noise_math.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Element i takes word i % 4 of Philox block i / 4.
template <class T>
struct AddNoise {
  NoiseMath math;
  RandomKey drawn_key;
  const T* range;  // null: 1
  const T* x;
  T* y;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto block = static_cast<uint64_t>(i / 4);
    const RandomKey key = drawn_key.known();
    const PhiloxBlock drawn =
        philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                     key.key0, key.key1);
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    y[i] = math.apply(x[i], words[i % 4], range ? *range : T{1});
  }
  void on_host(int64_t begin, int64_t end) const {
    constexpr int64_t kStep = 1024, kTogether = 4 * kWordBlocks;
    uint16_t halves[2 * (kStep + kTogether)];
    uint32_t words[kStep + kTogether];
    const T size = range ? *range : T{1};
    for (int64_t at = begin; at < end; at += kStep) {
      const int64_t n = std::min(kStep, end - at), skip = at % 4;
      const int64_t blocks = (skip + n + kTogether - 1) / kTogether * kWordBlocks;
      draw_words(drawn_key.key0, drawn_key.key1, at / 4, blocks, halves);
      for (int64_t k = 0; k < 4 * blocks; ++k)
        words[k] = halves[2 * k] | uint32_t{halves[2 * k + 1]} << 16;
      if constexpr (std::is_same_v<T, float>) {
        add_noise(math, words + skip, size, n, x + at, y + at);
      } else {
        for (int64_t k = 0; k < n; ++k) y[at + k] = math.apply(x[at + k], words[skip + k], size);
      }
    }
  }
};

/// The greatest magnitude of each of some equal parts; NaN if there is one.
template <class T>
struct PartMaximum {
  int64_t part, count;
  const T* x;
  T* maximum;
  CREMA_FUNCTOR void operator()(int64_t p) const {
    const int64_t end = (p + 1) * part < count ? (p + 1) * part : count;
    T greatest = 0;
    for (int64_t i = p * part; i < end; ++i) {
      const T size = x[i] < T{0} ? -x[i] : x[i];
      // A NaN stays.
      greatest = size <= greatest || greatest != greatest ? greatest : size;
    }
    maximum[p] = greatest;
  }
};

class NoiseLayer : public TwoSidedLayer {
 public:
  explicit NoiseLayer(const LayerInit& init) : TwoSidedLayer(init), stream_(stream_id(name())) {
    const NoiseLayerParameter& settings = init.param.noise_param();
    if (!std::isfinite(settings.mean()))
      throw Error("mean ", settings.mean(), " is no number to add");
    if (!(settings.std() >= 0 && std::isfinite(settings.std())))
      throw Error("std ", settings.std(), " is no standard deviation; give a number from 0 on");
    if (!settings.has_std() && !settings.has_mean())
      throw Error("neither std nor mean is set, so there is no noise; set one, such as std: 0.1");
    adds_ = phase() == Phase::train || settings.in_test();
    adds_ = adds_ && (settings.std() > 0 || settings.mean() != 0);
    by_range_ = settings.relative_to() == NoiseLayerParameter::RANGE;
    math_ = {settings.distribution() == NoiseLayerParameter::GAUSSIAN,
             settings.relative_to() == NoiseLayerParameter::VALUE, settings.mean(), settings.std()};
  }

  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void prepare_reference(Blobs, Blobs) override {
    maxima_.reshape(Shape{adds_ && by_range_ ? kParts + 1 : 0});
    maxima_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override { return maxima_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    constexpr double kDraw = 40;
    return {adds_ ? kDraw * static_cast<double>(bottom[0]->count()) : 0, 0};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (!adds_) return copy(device, bottom[0]->data, top[0]->data);
    // One Philox block makes the key of all others.
    key_.draw(device, *this, stream_);
    const int64_t count = bottom[0]->count();
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      const T* range = by_range_ ? greatest<T>(device, count, x) : nullptr;
      for_each(device, count, kPassGrain,
               AddNoise<T>{math_, key_.on(device), range, x, device.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    copy(device, top[0]->diff, bottom[0]->diff);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return adds_ ? InPlace::overwrite : InPlace::alias;
  }

 private:
  static constexpr int64_t kParts = 256;

  /// The greatest magnitude of all, in two steps.
  template <class T>
  const T* greatest(const ComputeDevice& device, int64_t count, const T* x) {
    T* maxima = device.overwrite<T>(maxima_);
    const int64_t part = (count + kParts - 1) / kParts;
    for_each(device, kParts, kElementGrain / std::max<int64_t>(part, 1) + 1,
             PartMaximum<T>{part, count, x, maxima});
    for_each(device, 1, 1, PartMaximum<T>{kParts, kParts, maxima, maxima + kParts});
    return maxima + kParts;
  }

  NoiseMath math_;
  bool adds_ = false, by_range_ = false;
  PassKey key_;
  uint64_t stream_;  // of the layer's name
  Tensor maxima_;    // of parts of the bottom, and of all
};

}  // namespace

void register_noise(Registry& registry) { add_two_sided<NoiseLayer>(registry, "Noise"); }

}  // namespace crema
