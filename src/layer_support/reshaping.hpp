// Layers whose top has the values of their bottom in another shape. They write reshape() only.
#pragma once

#include "layer_support/two_sided.hpp"

namespace crema {

class ReshapingLayer : public TwoSidedLayer {
 public:
  bool moves_values() const override { return true; }
  using TwoSidedLayer::TwoSidedLayer;

  // Contiguous values are the same in either shape: at most they are copied.
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) final {
    copy(device, bottom[0]->data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) final {
    copy(device, top[0]->diff, bottom[0]->diff);
  }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const final {
    return moving_options(*this, bottom, top, false);
  }

 protected:
  BackwardReads reference_backward_reads() const final { return {false, false}; }
  InPlace reference_in_place() const final { return InPlace::alias; }
};

}  // namespace crema
