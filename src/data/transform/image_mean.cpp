#include "data/transform/image_mean.hpp"

#include <cmath>
#include <numeric>

#include "crema/error.hpp"
#include "data/images/image_planes.hpp"
#include "data/records/record_scan.hpp"
#include "proto/blob.pb.h"

namespace crema {
namespace {

/// The pixels of a record as planes (C, H, W); one of `bytes` and `floats` has them.
struct Pixels {
  std::string key;
  bool is_deep = false;
  Shape shape;
  std::vector<uint8_t> bytes;
  std::vector<float> floats;
};

void read_pixels(ScanThread& thread, int64_t index, Pixels& pixels) {
  const Record record = thread.reader->read(index);
  const Image image = thread.decoder->decode(record);
  const auto count = static_cast<size_t>(image.count());
  pixels.key = printable_key(record.key);
  pixels.is_deep = thread.decoder->loss().depth;
  pixels.shape = image.shape();
  pixels.bytes.resize(image.bytes != nullptr ? count : 0);
  pixels.floats.resize(image.bytes != nullptr ? 0 : count);
  if (image.bytes != nullptr) {
    copy_planes(image, image.bytes, pixels.bytes.data());
    return;
  }
  copy_planes(image, image.floats, pixels.floats.data());
  for (const float value : pixels.floats) {
    if (!std::isfinite(value))
      throw Error("record '", pixels.key, "' has the value ", value,
                  "; leave it out, or write the database again");
  }
}

template <class T>
void add(const std::vector<T>& pixels, std::vector<double>& sums) {
  for (size_t i = 0; i < pixels.size(); ++i) sums[i] += static_cast<double>(pixels[i]);
}

}  // namespace

void ImageMean::save(BlobProto& blob) const {
  blob.Clear();
  // Programs that read mean images know the sizes of old files only.
  blob.set_num(1);
  blob.set_channels(static_cast<int>(shape[0]));
  blob.set_height(static_cast<int>(shape[1]));
  blob.set_width(static_cast<int>(shape[2]));
  for (const double value : values) blob.add_data(static_cast<float>(value));
}

ImageMean image_mean(RecordSource& source, ColorMode color, const ConvertProgress& progress) {
  ImageMean mean;
  std::string first_key;
  const int64_t count = source.count();
  scan_records<Pixels>(source, 0, count, color, read_pixels, [&](int64_t index, Pixels& pixels) {
    if (index == 0) {
      first_key = pixels.key;
      mean.shape = pixels.shape;
      mean.values.resize(static_cast<size_t>(pixels.shape.count()));
    }
    if (pixels.shape != mean.shape)
      throw Error(source.name(), ": record '", pixels.key, "' is of ", pixels.shape.str(),
                  ", the first one, '", first_key, "', of ", mean.shape.str(),
                  "; a mean image needs images of one size: write the database with "
                  "convert-imageset --resize, or set mean_value in place of mean_file");
    mean.deep += pixels.is_deep;
    add(pixels.bytes, mean.values);
    add(pixels.floats, mean.values);
    if (progress) progress(index + 1, count);
  });
  mean.records = count;
  for (double& value : mean.values) value /= static_cast<double>(count);
  const auto plane = static_cast<std::ptrdiff_t>(mean.shape.count(1));
  for (auto at = mean.values.begin(); at != mean.values.end(); at += plane) {
    mean.channel_means.push_back(std::accumulate(at, at + plane, 0.0) / static_cast<double>(plane));
  }
  return mean;
}

}  // namespace crema
