// In place of OpenCV, in a build without it.
#include "data/images/picture_marks.hpp"

#include "crema/error.hpp"

namespace crema {

bool can_mark_pictures() { return false; }

std::string marked_picture(const Image&, std::span<const PictureMark>,
                           const std::vector<std::string>&, const std::string&) {
  throw Error(
      "this build cannot draw on pictures: it was configured with CREMA_OPENCV=OFF; build with "
      "CREMA_OPENCV=ON");
}

}  // namespace crema
