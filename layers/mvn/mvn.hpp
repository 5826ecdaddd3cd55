// MVN: gives each channel of each sample, or each sample, mean 0 and variance 1. See README.md.
#pragma once

#include "layer_support/channel_passes.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

class MVNLayer : public TwoSidedLayer {
 public:
  explicit MVNLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  /// The bottom as groups of values that are normalized together: the channels of the view.
  const ChannelView& view() const { return view_; }
  bool normalizes_variance() const { return normalizes_variance_; }
  double epsilon() const { return epsilon_; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  void prepare_device(Blobs bottom, Blobs top) override;
  bool stores_16_bits() const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  size_t scratch_bytes() const override { return scratch_bytes_; }
  size_t kept_bytes() const override {
    return mean_.bytes() + inverse_.bytes() + means_.bytes() + coefficients_.bytes();
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = false, .top_data = normalizes_variance_};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  /// to = from less the mean of its group, in the memory of the device, times inverse_ if `scales`.
  template <class T>
  void centre(const ComputeDevice& device, const T* from, bool scales, T* to);

  // mvn_device.cpp
  ChannelMaps maps_of(const Tensor& tensor) const;
  template <class T>
  void centre_on(const ComputeDevice& device, const Tensor& from, bool scales, Tensor& to);
  template <class T>
  void backward_on(const ComputeDevice& device, Blobs top, Blobs bottom);

  bool normalizes_variance_, across_channels_;
  double epsilon_;
  ChannelView view_;
  Tensor mean_{Shape{0}, DType::f64}, inverse_{Shape{0}, DType::f64};  // (groups)
  Tensor means_{Shape{0}, DType::f64};  // (groups, 2): of dy, and of dy * y
  Tensor coefficients_{Shape{0}};       // of devices: channels::coefficients_in()
  size_t scratch_bytes_ = 0;
};

}  // namespace crema
