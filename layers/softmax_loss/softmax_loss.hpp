// SoftmaxWithLoss: the mean of -log(softmax(x)[label]). See README.md.
#pragma once

#include <optional>
#include <vector>

#include "core/loss.hpp"
#include "crema/layer.hpp"

namespace crema {

class SoftmaxLossLayer : public Layer {
 public:
  explicit SoftmaxLossLayer(const LayerInit& init);

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 2, .min_tops = 1, .max_tops = 2};
  }
  void reshape(Blobs bottom, Blobs top) override;
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  Flops flops(Blobs bottom, Blobs top) const override;

  /// Error for a label outside the classes.
  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  /// The scores seen as (outer, classes, inner).
  int64_t outer() const { return outer_; }
  int64_t classes() const { return classes_; }
  int64_t inner() const { return inner_; }
  double smoothing() const { return smoothing_; }
  const std::optional<int>& ignored() const { return ignored_; }
  const LossNormalization& normalization() const { return normalization_; }

 protected:
  // The probabilities and labels that backward needs are kept here.
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  void prepare_reference(Blobs bottom, Blobs top) override;

 private:
  template <class T>
  void forward_as(Blobs bottom, Blobs top);

  int axis_ = 1;
  double smoothing_ = 0;
  std::optional<int> ignored_;
  LossNormalization normalization_;
  int64_t outer_ = 1, classes_ = 1, inner_ = 1;

  Labels labels_;
  Tensor probability_;                // of the scores' shape, where the layer trains
  std::vector<double> partial_loss_;  // added up in order, whatever the number of threads
};

}  // namespace crema
