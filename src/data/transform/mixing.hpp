// Mixing: mixup and cutmix, which make one sample of two of a batch, and labels as distributions
// over classes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/images/image.hpp"
#include "data/transform/augmentation.hpp"

namespace crema {

/// What a sample gets of another one of its batch.
struct Mix {
  double share = 0;     // of the other sample; 0: nothing
  int64_t partner = 0;  // its index in the batch
  /// The pixels taken from it. None: each pixel is a weighted sum.
  std::optional<ImageWindow> window;
};

class Mixing {
 public:
  /// Error for settings out of range, or that exclude each other.
  Mixing(const TransformationParameter& param, Phase phase, int64_t batch_size);

  /// Classes of a label's distribution; 0: labels stay numbers.
  int64_t classes() const { return classes_; }
  bool is_active() const { return active_; }
  Mix draw(const SampleRandom& random, int64_t index, ImageSize sample) const;

 private:
  MixParameter param_;
  bool cuts_ = false;
  bool active_ = false;
  int64_t batch_size_;
  int64_t classes_;
};

/// sample (C, H, W) with its share of other (C, H, W).
template <class T>
void mix(const Mix& mix, const Shape& shape, const T* other, T* sample);

/// out (N, classes): 1 at each label, mixed as the samples are; `mixes` is empty or has N. Error,
/// with key_of(n), for a label that is no class.
template <class T>
void class_distributions(const std::vector<double>& labels, const std::vector<Mix>& mixes,
                         int64_t classes, const std::function<std::string(int64_t)>& key_of,
                         T* out);

/// From Beta(alpha, alpha).
double draw_beta(double alpha, Random& random);

}  // namespace crema
