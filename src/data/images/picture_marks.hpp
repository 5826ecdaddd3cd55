// Pictures with frames and words on them, for people to look at, by OpenCV. Built without OpenCV,
// drawing throws an Error that says so.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/images/geometry.hpp"
#include "data/images/image.hpp"

namespace crema {

/// A frame, and words on a plate at its upper left corner. Marks of one kind have one colour.
struct PictureMark {
  Box box;  // in pixels of the image; what lies outside is not drawn
  std::string words;
  int kind = 0;
};

/// The image (interleaved bytes, blue first, or gray) as a file of the kind that an extension
/// names, such as "png": with the marks, and with `lines` of text above it. One with no side of 256
/// pixels is enlarged by a whole factor, so that the words beside it can be read. Letters that are
/// no ASCII become '?'.
std::string marked_picture(const Image& image, std::span<const PictureMark> marks,
                           const std::vector<std::string>& lines, const std::string& extension);

/// Whether this build has what marked_picture() needs.
bool can_mark_pictures();

}  // namespace crema
