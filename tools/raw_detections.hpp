// Detections of a net that ends with boxes and scores instead of a layer such as DetectionOutput.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "layers/detection_output/detection_choice.hpp"

namespace crema::tools {

/// The flags --boxes, --scores, --priors, --box_units, --background_label_id and --nms_threshold of
/// `crema detect`.
class RawDetections {
 public:
  /// Error for flags that contradict each other, or that need others.
  RawDetections();

  /// Whether the flags name such tops.
  bool named() const;
  /// The tops to keep for reading.
  std::vector<std::string> tops() const;
  /// Error unless the net has the tops, in shapes that fit each other. `sample`: of the input.
  void check(Net& net, const Shape& sample);

  /// After a pass of `images` images.
  struct One {
    int64_t image;
    int32_t label;
    double confidence;
    BoundingBox<float> box;  // relative to the sample
  };
  std::vector<One> found(Net& net, int64_t images, double confidence);

 private:
  struct Numbers {
    int64_t priors = 0, classes = 0;
  };
  Numbers numbers(Net& net) const;

  Shape sample_;  // C, H, W
};

}  // namespace crema::tools
