// Flatten: joins neighbouring axes into one. See README.md.
#pragma once

#include "crema/layer.hpp"

namespace crema {

class FlattenLayer : public Layer {
 public:
  explicit FlattenLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  // Contiguous values are the same in either shape: nothing is computed, at most copied.
  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return InPlace::alias; }

 private:
  int axis_ = 1, end_axis_ = -1;
};

}  // namespace crema
