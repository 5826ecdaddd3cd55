#include "data/transform/mean_file.hpp"

#include <fstream>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "model/blob_message.hpp"
#include "model/file_kind.hpp"
#include "proto/blob.pb.h"

namespace crema {
namespace {

/// The shape of a BlobProto as (C, H, W), a leading 1 dropped.
Shape image_shape(const BlobProto& blob) {
  std::vector<int64_t> dims = blob_shape(blob).dims();
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  Shape shape(dims);
  if (shape.rank() != 3) throw Error("it holds an array of ", shape.str(), ", and not one image");
  return shape;
}

}  // namespace

MeanImage read_mean_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.good())
    throw Error("cannot open mean_file '", path, "'",
                path_advice(path, "the path is relative to the folder that the program runs in"))
        .about(path);
  refuse_stand_in(path, "mean_file");
  BlobProto blob;
  if (!blob.ParseFromIstream(&file))
    throw Error(
        "mean_file '", path,
        "' is no BlobProto; give a mean image (as in imagenet_mean.binaryproto), or mean_value, "
        "a number for each channel");
  try {
    MeanImage mean{.shape = image_shape(blob), .values = {}};
    const int64_t size = blob_count(blob);
    if (size == 0 || size != mean.shape.count())
      throw Error("its shape ", mean.shape.str(), " needs ", mean.shape.count(),
                  " values and it holds ", size);
    mean.values.resize(static_cast<size_t>(size));
    copy_values(blob, mean.values.data());
    return mean;
  } catch (const Error& error) {
    throw Error("mean_file '", path, "': ", error.message()).about(error.path());
  }
}

std::vector<float> channel_means(const MeanImage& image) {
  std::vector<float> means;
  const int64_t plane = image.shape.count(1);
  for (int64_t c = 0; c < image.shape[0]; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < plane; ++i) {
      sum += static_cast<double>(image.values[static_cast<size_t>(c * plane + i)]);
    }
    means.push_back(static_cast<float>(sum / static_cast<double>(plane)));
  }
  return means;
}

}  // namespace crema
