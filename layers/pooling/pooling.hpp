// Pooling: the maximum, the average, or a random choice of each window of a sequence, an image or a
// volume. See README.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layer_support/two_sided.hpp"
#include "layers/pooling/pooling_math.hpp"

namespace crema {

class PoolingParameter;  // layers/pooling/pooling.proto

/// A setting of the windows as it is given.
struct PoolingSetting {
  std::string name;
  std::vector<int64_t> values = {};  // none, one for all axes, or one for each

  /// The value for axis i of `axes`. Error if there is another number of values.
  int64_t of_axis(size_t i, size_t axes, int64_t otherwise) const;
  bool any_but(int64_t value) const;
};

/// The random numbers of the present pass of a layer.
PoolingChance pooling_chance(const Layer& layer);

class PoolingLayer : public TwoSidedLayer {
 public:
  using Method = PoolingMethod;

  explicit PoolingLayer(const LayerInit& init);
  /// `settings` need not be those of the message.
  PoolingLayer(const LayerInit& init, const PoolingParameter& settings);

  Arity arity() const override;
  bool has_gradient(int top) const override { return top == 0; }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// MAX applies a ReLU behind it, and also one in front of it, where there are more values.
  bool commutes_with(const TailStep& step) const override;
  bool accepts(const Tail& tail) const override;
  bool is_exact_top(int top) const override { return top > 0; }
  /// Of the second top. The rows of a volume are those of all its planes.
  std::optional<PlacedMap> places_of(int t) const override;

  /// Own kernels on CUDA, since cuDNN's windows end differently: published ones are rounded up.
  bool capturable() const override { return !samples(); }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  bool stores_16_bits() const override { return method_ != Method::stochastic; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  std::string device_refusal(Blobs bottom) const override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  void prepare_device(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override { return choice_.bytes(); }

  Method method() const { return method_; }
  const PoolingWindows& windows() const { return windows_; }
  /// A ReLU follows the maximum.
  bool rectifies() const { return !tail().empty(); }
  /// The output is drawn from the window.
  bool samples() const { return method_ == Method::stochastic && phase() == Phase::train; }
  /// Backward goes to one chosen input of each window, which forward has to remember.
  bool remembers_choice() const;

 protected:
  BackwardReads reference_backward_reads() const override;

 private:
  /// Those of windows_ that the bottom has.
  std::span<PoolingAxis* const> axes();
  /// The shape and the type of choice_, whose memory stays where it is large enough.
  void prepare_choice(Blobs top, DType dtype);

  Method method_ = Method::maximum;
  bool global_ = false, round_up_ = true;
  PoolingSetting kernel_, stride_, pad_;
  PoolingWindows windows_;
  std::array<PoolingAxis*, 3> all_axes_ = {&windows_.z, &windows_.y, &windows_.x};
  int spatial_axes_ = 2;
  /// Maxima and averages on a device, by N values at once.
  template <class T, int N>
  void forward_packs(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class T, int N>
  void backward_packs(const ComputeDevice& device, Blobs top, Blobs bottom);

  // Of the top's shape: a place within the channel (i32), or what pooling_device.hpp keeps (u8,
  // i32).
  Tensor choice_{Shape{0}, DType::i32};
};

}  // namespace crema
