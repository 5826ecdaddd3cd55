// Softmax: y = exp(x) / sum of exp(x) along one axis. See README.md.
#pragma once

#include "crema/layer.hpp"

namespace crema {

class SoftmaxLayer : public Layer {
 public:
  explicit SoftmaxLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  /// The bottom seen as (outer, classes, inner).
  int64_t outer() const { return outer_; }
  int64_t classes() const { return classes_; }
  int64_t inner() const { return inner_; }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = false, .top_data = true};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  int axis_ = 1;
  int64_t outer_ = 1, classes_ = 1, inner_ = 1;
};

}  // namespace crema
