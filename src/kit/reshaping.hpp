// Layers whose top has the values of their bottom in another shape. They write reshape() only.
#pragma once

#include "core/moves_values.hpp"
#include "kit/two_sided.hpp"

namespace crema {

class ReshapingLayer : public TwoSidedLayer, public MovesValues {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  // Contiguous values are the same in either shape: at most they are copied.
  void run_forward(const Side& side, Blobs bottom, Blobs top) final {
    copy(side, bottom[0]->data, top[0]->data);
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) final {
    copy(side, top[0]->diff, bottom[0]->diff);
  }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const final {
    return moving_options(*this, bottom, top, false);
  }

 protected:
  BackwardReads reference_backward_reads() const final { return {false, false}; }
  InPlace reference_in_place() const final { return InPlace::alias; }
};

}  // namespace crema
