#include "layers/memory_data/memory_records.hpp"

#include <array>
#include <limits>
#include <utility>

#include "data/images/image_planes.hpp"
#include "data/records/record_labels.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

using Strings = std::shared_ptr<const std::vector<std::string>>;

class MemoryReader final : public RecordReader {
 public:
  explicit MemoryReader(Strings records) : records_(std::move(records)) {}
  Record read(int64_t index) override {
    key_ = key(index);
    return {key_, records_->at(static_cast<size_t>(index))};
  }
  std::string key(int64_t index) override { return std::to_string(index); }

 private:
  Strings records_;
  std::string key_;
};

class MemorySource final : public RecordSource {
 public:
  explicit MemorySource(Strings records) : records_(std::move(records)) {}
  int64_t count() const override { return static_cast<int64_t>(records_->size()); }
  std::string name() const override { return "the program's records"; }
  std::unique_ptr<RecordReader> reader(ReadOrder) override {
    return std::make_unique<MemoryReader>(records_);
  }

 private:
  Strings records_;
};

Image image_of(const Tensor& tensor, ImageAxes axes, int64_t number) {
  const Shape& shape = tensor.shape();
  const bool is_image = shape.rank() == 3 && shape.count() > 0 &&
                        shape.count() <= std::numeric_limits<int32_t>::max();
  const bool is_type = tensor.dtype() == DType::u8 || tensor.dtype() == DType::f32;
  if (!is_image || !is_type || tensor.format() != Format::contiguous)
    throw Error("image ", number, " is ", shape.str(), " of ", to_string(tensor.dtype()), ", ",
                to_string(tensor.format()), "; give contiguous tensors ",
                axes == ImageAxes::chw ? "(C, H, W)" : "(H, W, C)", " of u8 or f32");
  const std::array<int, 3> at = axes == ImageAxes::chw ? std::array{0, 1, 2} : std::array{2, 0, 1};
  Image image{.channels = shape[at[0]], .height = shape[at[1]], .width = shape[at[2]]};
  image.interleaved = axes == ImageAxes::hwc;
  return image;
}

std::string record_of(const Tensor& tensor, const Image& image, double label) {
  Datum datum;
  datum.set_channels(static_cast<int32_t>(image.channels));
  datum.set_height(static_cast<int32_t>(image.height));
  datum.set_width(static_cast<int32_t>(image.width));
  const auto count = static_cast<size_t>(image.count());
  if (tensor.dtype() == DType::u8) {
    datum.mutable_data()->resize(count);
    copy_planes(image, tensor.read<uint8_t>(),
                reinterpret_cast<uint8_t*>(datum.mutable_data()->data()));
  } else {
    datum.mutable_float_data()->Resize(static_cast<int>(count), 0);
    copy_planes(image, tensor.read<float>(), datum.mutable_float_data()->mutable_data());
  }
  set_labels(labels_of(std::array{label}), datum);
  return datum.SerializeAsString();
}

}  // namespace

std::shared_ptr<RecordSource> open_memory(std::vector<std::string> records) {
  return std::make_shared<MemorySource>(
      std::make_shared<const std::vector<std::string>>(std::move(records)));
}

std::vector<std::string> records_of(const std::vector<Tensor>& images, const Tensor& labels,
                                    ImageAxes axes) {
  const auto count = static_cast<int64_t>(images.size());
  if (labels.count() != count)
    throw Error("there are ", count, " images and ", labels.count(),
                " labels; give one label an image");
  std::vector<std::string> records;
  for (int64_t n = 0; n < count; ++n) {
    const Tensor& tensor = images[static_cast<size_t>(n)];
    if (tensor.dtype() != images[0].dtype())
      throw Error("image ", n, " is of ", to_string(tensor.dtype()), ", image 0 of ",
                  to_string(images[0].dtype()), "; give all images one type");
    records.push_back(record_of(tensor, image_of(tensor, axes, n), labels.at(n)));
  }
  return records;
}

}  // namespace crema
