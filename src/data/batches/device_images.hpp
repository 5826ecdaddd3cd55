// DeviceImages: a batch of images goes to a device as bytes, and becomes the values of the net
// there.
#pragma once

#include <memory>

#include "core/device_run.hpp"
#include "core/staged_upload.hpp"
#include "crema/context.hpp"
#include "data/batches/image_batch.hpp"

namespace crema {

class DeviceImages {
 public:
  /// Of a context on a device.
  explicit DeviceImages(Context& context) : context_(context) {}

  /// Queued: as convert_batch() of bytes without mixes. Once something has failed in the run of the
  /// device, the top keeps its values.
  void convert(const ImageBatch& batch, const Transform& transform, Tensor& top);

 private:
  Context& context_;
  Tensor means_{Shape{0}};
  int64_t means_for_ = 0;  // channels
  std::unique_ptr<StagedUpload> upload_;
};

}  // namespace crema
