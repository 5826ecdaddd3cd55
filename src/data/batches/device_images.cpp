#include "data/batches/device_images.hpp"

#include <algorithm>
#include <cstring>

#include "backend/pixels.hpp"
#include "core/parallel.hpp"

namespace crema {
namespace {

constexpr int64_t kByteGrain = 65536;

/// Bytes of the places, which come first: what follows is aligned.
size_t bytes_of_places(int64_t samples) {
  constexpr size_t kUnit = 64;
  const size_t bytes = static_cast<size_t>(samples) * sizeof(PixelPlace);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

void DeviceImages::convert(const ImageBatch& batch, const Transform& transform, Tensor& top) {
  const Shape& shape = top.shape();  // (N, C, H, W)
  const size_t head = bytes_of_places(shape[0]), pixels = static_cast<size_t>(shape.count());
  DeviceBackend& backend = context_.backend();
  const int32_t* const stop = context_.device_run().stop();
  if (means_for_ != shape[1]) {
    const std::vector<float> means = transform.means(shape[1]);
    means_.reshape(Shape{static_cast<int64_t>(means.size())});
    std::ranges::copy(means, means_.overwrite<float>());
    means_for_ = shape[1];
  }
  if (upload_ == nullptr || upload_->bytes() < head + pixels)
    upload_ = std::make_unique<StagedUpload>(backend, head + pixels, stop);
  else
    upload_->turn();

  auto* const host = static_cast<std::byte*>(upload_->host());
  const Shape& mean = transform.mean_shape();
  const bool has_image = transform.has_mean_image();
  auto* const places = reinterpret_cast<PixelPlace*>(host);
  for (size_t n = 0; n < static_cast<size_t>(shape[0]); ++n) {
    const Placement& placement = batch.placements[n];
    const int64_t at = has_image ? placement.top * mean[2] + placement.left : 0;
    places[n] = {static_cast<int32_t>(at), placement.mirrored ? 1 : 0};
  }
  const uint8_t* const bytes = batch.bytes.data();
  parallel_for(shape.count(), kByteGrain, [=](int64_t begin, int64_t end) {
    std::memcpy(host + head + begin, bytes + begin, static_cast<size_t>(end - begin));
  });
  const auto* const arrived = static_cast<const std::byte*>(upload_->arrive(head + pixels));
  device_pixels(backend,
                {.samples = shape[0],
                 .channels = shape[1],
                 .height = shape[2],
                 .width = shape[3],
                 .pixels = reinterpret_cast<const uint8_t*>(arrived + head),
                 .places = reinterpret_cast<const PixelPlace*>(arrived),
                 .means = means_.read<float>(&backend),
                 .mean_row = has_image ? mean[2] : 0,
                 .mean_plane = has_image ? mean[1] * mean[2] : 0,
                 .scale = transform.scale(),
                 .stop = stop},
                top.dtype(), top.overwrite_bytes(&backend));
  upload_->taken();
}

}  // namespace crema
