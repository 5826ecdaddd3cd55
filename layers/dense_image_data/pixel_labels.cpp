#include "layers/dense_image_data/pixel_labels.hpp"

#include <utility>

#include "crema/error.hpp"
#include "data/records/image_list.hpp"

namespace crema {
namespace {

void take_labels(const Image& image, std::vector<uint8_t>& labels) {
  labels.resize(static_cast<size_t>(image.height * image.width));
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t pixel = 0; pixel < labels.size(); ++pixel) {
    const uint8_t* values = image.bytes + pixel * channels;
    labels[pixel] = values[0];
    if (channels < 3 || (values[1] == values[0] && values[2] == values[0])) continue;
    throw Error("its pixel in row ", pixel / static_cast<size_t>(image.width), ", column ",
                pixel % static_cast<size_t>(image.width), " has the colours ", int{values[2]}, ", ",
                int{values[1]}, ", ", int{values[0]},
                "; a label map is gray, or a PNG with a palette: write it with the label as the "
                "value of each pixel");
  }
}

}  // namespace

PixelLabels::PixelLabels(Options options) : options_(std::move(options)) {
  if (options_.divisor == 0)
    throw Error(
        "dense_image_data_param { label_divide_factor: 0 } divides labels by 0; set 1 to "
        "keep them as they are");
}

std::vector<std::string> PixelLabels::files() const {
  std::vector<std::string> paths;
  for (const ListedPair& pair : options_.pairs)
    paths.push_back(image_path(options_.root, pair.beside));
  return paths;
}

void PixelLabels::read(int64_t index, ImageSize image, Reader& reader) const {
  const ListedPair& pair = options_.pairs.at(static_cast<size_t>(index));
  const std::string path = image_path(options_.root, pair.beside);
  try {
    read_file_bytes(path, reader.file);
    reader.decoder.open_labels(reader.file);
    const Image map = reader.decoder.whole();
    if (map.height != image.height || map.width != image.width)
      throw Error("it is of ", map.height, " x ", map.width, " pixels, and its image of ",
                  image.height, " x ", image.width,
                  "; a label map has the size of its image: name the map of this image");
    take_labels(map, reader.labels);
    for (uint8_t& label : reader.labels) label = static_cast<uint8_t>(label / options_.divisor);
  } catch (const Error& error) {
    Error told("label map '", path, "': ", error.message());
    told.about(error.path());
    told.at({options_.list, static_cast<int>(pair.line), 0});
    throw told;
  }
}

}  // namespace crema
