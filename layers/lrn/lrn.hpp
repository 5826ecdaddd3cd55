// LRN: divides each value by a power of the sum of squares around it. See README.md.
#pragma once

#include "kit/pass_layer.hpp"

namespace crema {

/// y = x * scale^-beta, scale = k + weight * (sum of x^2 over the neighbourhood).
struct LRNSettings {
  bool across_channels = true;
  int64_t reach = 2;  // neighbours on each side: local_size = 2 * reach + 1
  double weight = 0;  // alpha divided by the values of a neighbourhood
  double beta = 0.75;
  double k = 1;
};

class LRNLayer : public PassLayer {
 public:
  explicit LRNLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  const LRNSettings& settings() const { return settings_; }

 protected:
  /// The scale is computed again from x, which is cheaper than to keep it.
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = true, .top_data = false};
  }

 private:
  LRNSettings settings_;
};

}  // namespace crema
