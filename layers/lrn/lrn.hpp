// LRN: divides each value by a power of the sum of squares around it. See README.md.
#pragma once

#include "layer_support/two_sided.hpp"

namespace crema {

/// y = x * scale^-beta, scale = k + weight * (sum of x^2 over the neighbourhood).
struct LRNSettings {
  bool across_channels = true;
  int64_t reach = 2;  // neighbours on each side: local_size = 2 * reach + 1
  double weight = 0;  // alpha divided by the values of a neighbourhood
  double beta = 0.75;
  double k = 1;
};

class LRNLayer : public TwoSidedLayer {
 public:
  explicit LRNLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  const LRNSettings& settings() const { return settings_; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  bool stores_16_bits() const override { return true; }
  /// Across channels, channels_last too.
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  void prepare_reference(Blobs bottom, Blobs) override { kept_bytes_ = scratch_of(bottom); }
  void prepare_device(Blobs bottom, Blobs) override {
    scratch_bytes_ = by_packs(bottom[0]->data) ? 0 : scratch_of(bottom);
    kept_bytes_ = 0;
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  size_t kept_bytes() const override { return kept_bytes_; }

 protected:
  /// The scale is computed again from x, which is cheaper than to keep it.
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = true, .top_data = false};
  }

 private:
  /// What each place adds to the gradients around it, in dtype().
  size_t scratch_of(Blobs bottom) const {
    const auto count = static_cast<size_t>(bottom[0]->count());
    return trains() ? count * size_of(dtype()) : 0;
  }
  /// Whether a device takes eight channels of a place at once, and makes their gradients in one
  /// pass.
  bool by_packs(const Tensor& bottom) const;

  LRNSettings settings_;
  size_t scratch_bytes_ = 0;  // on a device
  size_t kept_bytes_ = 0;     // of ratio_
  Tensor ratio_{Shape{0}};    // scratch memory of the reference
};

}  // namespace crema
