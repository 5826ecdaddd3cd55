// Mean images, as compute_image_mean writes them.
#pragma once

#include <string>
#include <vector>

#include "crema/shape.hpp"

namespace crema {

struct MeanImage {
  Shape shape{0, 0, 0};       // (C, H, W)
  std::vector<float> values;  // (C, H, W)
};

/// Reads a BlobProto file. Error, naming the file, if it holds no single image.
MeanImage read_mean_file(const std::string& path);

/// The mean of each channel.
std::vector<float> channel_means(const MeanImage& image);

}  // namespace crema
