// MVN: gives each channel of each sample, or each sample, mean 0 and variance 1. See README.md.
#pragma once

#include "backend/channel_view.hpp"
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
  size_t kept_bytes() const override { return mean_.bytes() + inverse_.bytes() + means_.bytes(); }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = false, .top_data = normalizes_variance_};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  /// to = from less the mean of its group, in the memory of the device, times inverse_ if `scales`.
  template <class T>
  void centre(const ComputeDevice& device, const T* from, bool scales, T* to);

  bool normalizes_variance_, across_channels_;
  double epsilon_;
  ChannelView view_;
  Tensor mean_{Shape{0}, DType::f64}, inverse_{Shape{0}, DType::f64};  // (groups)
  Tensor means_{Shape{0}, DType::f64};  // (groups, 2): of dy, and of dy * y
};

}  // namespace crema
