// Labels of pixels: a label map beside each image of a list, as DenseImageData reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/images/geometry.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/pair_list.hpp"

namespace crema {

/// The label of pixels that steps of augmentation bring in from outside an image.
inline constexpr uint8_t kOutsideLabel = 255;

/// Safe to use from many threads at once.
class PixelLabels {
 public:
  struct Options {
    std::string list, root;  // root goes before every name
    std::vector<ListedPair> pairs;
    uint32_t divisor = 1;  // a pixel's value over this is its label, without its fraction
  };
  /// Error for a divisor of 0.
  explicit PixelLabels(Options options);

  /// The paths of the label maps.
  std::vector<std::string> files() const;

  /// What a thread has of its own.
  struct Reader {
    ImageDecoder decoder;
    std::string file;
    std::vector<uint8_t> labels;  // of the map read last
  };
  /// Reads the map of record `index` to reader.labels; of a PNG with a palette, the indices. Error,
  /// naming file and line, if it cannot be read, is in colours, or is of another size than its
  /// image (`image`), both upright.
  void read(int64_t index, ImageSize image, Reader& reader) const;

 private:
  Options options_;
};

}  // namespace crema
