// The weights of classes that losses have (LossParameter): as given, or by the frequency of labels.
#pragma once

#include <cstdint>
#include <vector>

#include "layer_support/two_sided.hpp"

namespace crema {

class ClassWeights {
 public:
  /// What class_weighting does where weight_by_label_freqs is not set: nothing, with a warning, as
  /// published of SoftmaxWithLoss; or it weighs.
  enum class Unset : uint8_t { off, on };

  /// Reads loss_param. Error for a weight that is none; warns of class_weighting that has no
  /// effect. `smoothing`: of the labels, see mass().
  explicit ClassWeights(const LayerInit& init, double smoothing = 0, Unset unset = Unset::off);

  /// Whether classes are weighted.
  bool weigh() const { return weigh_; }
  /// Whether the weights come from the labels of each batch.
  bool by_frequency() const { return weigh_ && given_.empty(); }

  /// For reshape. Error unless there is a weight for each class of the scores.
  void reshape(const Blob& scores, int64_t classes, DType dtype);
  /// For forward, on the host: the weights by frequency, if they are. The weight of a class is the
  /// number of labels divided by that of its own and by the number of classes that occur; 0 if it
  /// does not occur. Labels outside of the classes do not count.
  void count(const int32_t* labels, int64_t positions);
  /// Error if weights by frequency are wanted, and bottom 1 holds a target for each class.
  void refuse_frequency(const Blob& targets) const;
  /// The same of losses that always have such targets: all weights are 1, with a warning.
  void leave_out_frequency(const LayerInit& init);

  /// One a class; null: all are 1.
  template <class T>
  const T* weight(const ComputeDevice& device) const {
    return weigh_ ? device.read<T>(weight_) : nullptr;
  }
  /// Of a label of each class, the sum of the targets of all classes: (1 - smoothing) times its own
  /// weight, and the smoothing spread evenly, times the weights of all. Null: all are 1.
  template <class T>
  const T* mass(const ComputeDevice& device) const {
    return weigh_ ? device.read<T>(mass_) : nullptr;
  }
  size_t bytes() const { return weight_.bytes() + mass_.bytes(); }

 private:
  void set(const auto& weight_of);

  bool weigh_;
  std::vector<float> given_;
  double smoothing_;
  Tensor weight_{Shape{0}}, mass_{Shape{0}};
  std::vector<int64_t> counts_;  // labels a class
};

}  // namespace crema
