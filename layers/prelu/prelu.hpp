// PReLU: a ReLU whose slope for negative values is learned. See README.md.
#pragma once

#include "backend/channel_view.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

class PReLULayer : public TwoSidedLayer {
 public:
  explicit PReLULayer(const LayerInit& init);

  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Slopes with axes of extent 1 beside their own.
  bool convert_weights(std::vector<Tensor>& published) const override;

  /// One slope for all channels.
  bool is_shared() const { return shared_; }
  Parameter* slope() const { return slope_; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  bool stores_16_bits() const override { return true; }
  void prepare_device(Blobs bottom, Blobs top) override;
  size_t scratch_bytes() const override { return scratch_bytes_; }
  /// Contiguous and channels_last.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;

 protected:
  /// Slopes may become negative, so y does not show the sign of x.
  BackwardReads reference_backward_reads() const override { return {true, false}; }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  ChannelView view_of(const Tensor& tensor) const;

  bool shared_;
  Parameter* slope_ = nullptr;  // (C), or a single number
  size_t scratch_bytes_ = 0;    // on a device
};

}  // namespace crema
