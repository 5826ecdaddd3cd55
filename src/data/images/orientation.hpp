// How the picture lies in an image file: EXIF's orientation, which cameras set instead of turning
// pixels. Decoders give the upright picture, so boxes, label maps and sizes are of that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "data/images/image.hpp"

namespace crema {

/// Number of the orientation, 1 to 8; 1 is upright, and so is any other number.
class Orientation {
 public:
  Orientation() = default;
  explicit Orientation(int number)
      : sideways_(number >= 5 && number <= 8),
        rows_reversed_(number == 3 || number == 4 || number == 6 || number == 7),
        columns_reversed_(number == 2 || number == 3 || number == 7 || number == 8) {}

  bool is_upright() const { return !sideways_ && !rows_reversed_ && !columns_reversed_; }
  /// Whether rows of the file are columns of the picture.
  bool is_sideways() const { return sideways_; }

  /// The size of the picture for that of the file, and the other way round.
  ImageSize turned(ImageSize size) const {
    return sideways_ ? ImageSize{size.width, size.height} : size;
  }

  /// Where a window of the picture lies in the file, whose size is `stored`.
  ImageWindow in_file(const ImageWindow& window, ImageSize stored) const {
    ImageWindow there = sideways_ ? transposed(window) : window;
    reverse(there, stored);
    return there;
  }
  /// Where a window of the file lies in the picture.
  ImageWindow in_picture(ImageWindow window, ImageSize stored) const {
    reverse(window, stored);
    return sideways_ ? transposed(window) : window;
  }

  /// Turns pixels (H, W, C) of the file's size to those of the picture, (W, H, C) if sideways.
  template <class T>
  void turn(const T* in, ImageSize stored, int64_t channels, T* out) const {
    const ImageSize size = turned(stored);
    // From pixel to pixel of the file, along a row and down a column of the picture.
    const int64_t row = rows_reversed_ ? -stored.width : stored.width;
    const int64_t column = columns_reversed_ ? -1 : 1;
    const int64_t along = (sideways_ ? row : column) * channels;
    const int64_t down = (sideways_ ? column : row) * channels;
    const int64_t first = (rows_reversed_ ? (stored.height - 1) * stored.width : 0) +
                          (columns_reversed_ ? stored.width - 1 : 0);
    in += first * channels;
    constexpr int64_t kBlock = 32;  // pixels whose lines of memory stay in the cache
    for (int64_t top = 0; top < size.height; top += kBlock) {
      const int64_t bottom = std::min(size.height, top + kBlock);
      for (int64_t left = 0; left < size.width; left += kBlock) {
        const int64_t right = std::min(size.width, left + kBlock);
        for (int64_t h = top; h < bottom; ++h) {
          const T* from = in + h * down + left * along;
          T* to = out + (h * size.width + left) * channels;
          for (int64_t w = left; w < right; ++w, from += along, to += channels) {
            for (int64_t c = 0; c < channels; ++c) to[c] = from[c];
          }
        }
      }
    }
  }

 private:
  static ImageWindow transposed(const ImageWindow& w) {
    return {.top = w.left, .left = w.top, .height = w.width, .width = w.height};
  }
  void reverse(ImageWindow& w, ImageSize stored) const {
    if (rows_reversed_) w.top = stored.height - w.top - w.height;
    if (columns_reversed_) w.left = stored.width - w.left - w.width;
  }

  bool sideways_ = false, rows_reversed_ = false, columns_reversed_ = false;
};

}  // namespace crema
