// EuclideanLoss: half the mean over the batch of squared distances. See README.md.
#pragma once

#include <vector>

#include "crema/layer.hpp"

namespace crema {

class EuclideanLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  void reshape(Blobs bottom, Blobs top) override;
  float default_loss_weight(int) const override { return 1; }
  Flops flops(Blobs bottom, Blobs top) const override;
  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  /// N: the first axis, by which the sum is divided.
  int64_t items() const { return items_; }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = true, .top_data = false};
  }

 private:
  int64_t items_ = 1;
  std::vector<double> partial_sums_;  // added up in order, whatever the number of threads
};

}  // namespace crema
