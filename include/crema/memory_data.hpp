// MemoryData: how programs feed layers of type MemoryData.
//
//   crema::MemoryData& memory = crema::MemoryData::of(net.layer("data"));
//   memory.set(pixels, labels);     // vectors of n * C * H * W and of n numbers
//   net.forward();                  // the first batch; each forward takes the next one
//   memory.set_images(images, labels);   // images that transform_param crops, mirrors, scales
//
// One thread at a time may use a layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// The order of an image's axes: planes, as blobs have them, or pixel by pixel, as in cv::Mat.
enum class ImageAxes : uint8_t { chw, hwc };

class MemoryData {
 public:
  virtual ~MemoryData() = default;
  /// Error if the layer is of another type.
  static MemoryData& of(Layer& layer);

  /// Gives the layer n records, n >= 1: `data` (n, C, H, W), with C, H, W of the layer's settings,
  /// and `labels`, n numbers of any shape. Both are contiguous, of any element type: forward
  /// converts to that of the net, and refuses integers that have no exact value in it. Nothing is
  /// copied: the layer keeps views of the memory, which must not change while forward runs. The
  /// next batch begins at the first record; behind the last one follows the first again. Give the
  /// data before Solver::restore(). transform_param does nothing to them, as published; this is
  /// logged.
  virtual void set(Tensor data, Tensor labels) = 0;
  /// The same for arrays, which are copied.
  void set(std::span<const float> data, std::span<const float> labels);

  /// Gives the layer n images, n >= 1, which go through transform_param as records of Data do; the
  /// samples have the C, H, W of the layer's settings. Images are contiguous tensors of rank 3, all
  /// u8 (0 to 255) or all f32, and may differ in height and width if they are cropped or resized;
  /// `labels` are n numbers. Both are copied. What is drawn for a sample is a function of seed,
  /// epoch and number of the image. Errors of images but the first come with their batch.
  virtual void set_images(std::vector<Tensor> images, Tensor labels,
                          ImageAxes axes = ImageAxes::chw) = 0;
  /// The same for serialized Datum messages with one label each, as databases have them; they may
  /// hold compressed images.
  virtual void set_records(std::vector<std::string> records) = 0;

 protected:
  /// (C, H, W) of a record.
  virtual Shape record_shape() const = 0;
};

}  // namespace crema
