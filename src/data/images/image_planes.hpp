// Pixels in the order of raw records.
#pragma once

#include <algorithm>

#include "data/images/image.hpp"

namespace crema {

/// Copies pixels of either order, `in` as image.bytes or image.floats, to planes (C, H, W).
template <class T>
void copy_planes(const Image& image, const T* in, T* out) {
  if (!image.interleaved) {
    std::copy_n(in, image.count(), out);
    return;
  }
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c, out += plane) {
    for (int64_t i = 0; i < plane; ++i) out[i] = in[i * image.channels + c];
  }
}

}  // namespace crema
