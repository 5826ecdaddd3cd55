// Boxes of a net in the pixels of the images that were resized for it: what detection layers save
// and compare in pixels.
#pragma once

#include <string>
#include <vector>

#include "data/images/geometry.hpp"
#include "data/images/image.hpp"

namespace crema {

class ResizeParameter;  // proto/augment.proto

/// An image of a test set.
struct NamedSize {
  std::string name;
  ImageSize size;
};

/// Reads lines "name height width". Error with the line for other ones, and for sides below 1.
std::vector<NamedSize> read_named_sizes(const std::string& path);

/// Error if the settings name no size where their mode needs one.
void check_unresizing(const ResizeParameter& resize);

/// A box in coordinates relative to the sample, in pixels of the image of size `image`, which
/// `resize` made the sample of (WARP where it has no mode), cut to the image. For FIT_SMALL_SIZE,
/// height_scale and width_scale are what the coordinates are relative to, if they are set.
Box in_original(const Box& relative, ImageSize image, const ResizeParameter& resize);

}  // namespace crema
