// In place of OpenCV, in a build without it.
#include "data/images/image_steps.hpp"

#include "crema/error.hpp"

namespace crema {

struct ImageEditor::State {};

ImageEditor::ImageEditor() = default;
ImageEditor::~ImageEditor() = default;
Image ImageEditor::apply(const Image&, const ImageWindow&, const std::vector<ImageStep>&) {
  throw Error(
      "this build cannot change images: it was configured with CREMA_OPENCV=OFF; build with "
      "CREMA_OPENCV=ON, or leave augmentation out of transform_param");
}

}  // namespace crema
