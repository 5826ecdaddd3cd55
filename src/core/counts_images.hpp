// CountsImages: the interface, for tests, of layers that count images of a batch, such as
// DetectionEvaluate (Layer::counts_images()).
#pragma once

#include <cstdint>
#include <functional>

namespace crema {

class CountsImages {
 public:
  virtual ~CountsImages() = default;

  /// From the next forward on, only images count for whose number in the batch the function is
  /// true. Null: all do.
  virtual void count_only(std::function<bool(int64_t image)> counts) = 0;
};

}  // namespace crema
