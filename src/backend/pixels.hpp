// Pixels as records store them to the values of a net, on a device: bytes are copied there, a
// quarter of what f32 takes. In backend/cuda, with a stub in backend/none that serves the device of
// the tests.
#pragma once

#include <cstdint>

#include "core/device.hpp"
#include "core/functor.hpp"

namespace crema {

/// Of a sample.
struct PixelPlace {
  int32_t mean = 0;  // where its first pixel is in a channel of the mean image
  int32_t mirrored = 0;
};

/// A batch in memory of the device.
struct PixelBatch {
  int64_t samples = 0, channels = 0, height = 0, width = 0;
  const uint8_t* pixels = nullptr;       // (N, C, H, W)
  const PixelPlace* places = nullptr;    // (N)
  const float* means = nullptr;          // (C), or the mean image (C, ...)
  int64_t mean_row = 0, mean_plane = 0;  // elements of the mean image; 0: (C)
  float scale = 1;
  const int32_t* stop = nullptr;  // unless *stop is 0, nothing is written

  int64_t count() const { return samples * channels * height * width; }
};

/// Element i of the top (N, C, H, W): (pixel - mean) * scale, as Transform::convert. Index: an
/// unsigned type that holds the number of elements.
template <class T, class Index>
struct ConvertPixel {
  PixelBatch batch;
  T* top;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (*batch.stop != 0) return;
    const auto width = static_cast<Index>(batch.width), height = static_cast<Index>(batch.height);
    const auto at = static_cast<Index>(i);
    const Index row = at / width, w = at % width;
    const Index plane = row / height, h = row % height;
    const Index n = plane / static_cast<Index>(batch.channels);
    const Index c = plane % static_cast<Index>(batch.channels);
    const PixelPlace place = batch.places[n];
    const Index from = place.mirrored != 0 ? width - 1 - w : w;
    float mean = 0;
    if (batch.mean_plane > 0) {
      mean = batch.means[static_cast<int64_t>(c) * batch.mean_plane + place.mean +
                         static_cast<int64_t>(h) * batch.mean_row + static_cast<int64_t>(from)];
    } else {
      mean = batch.means[c];
    }
    const T pixel = static_cast<T>(batch.pixels[static_cast<int64_t>(i) - w + from]);
    top[i] = (pixel - static_cast<T>(mean)) * static_cast<T>(batch.scale);
  }
};

/// Queued. `top` is f32 or f64.
void device_pixels(DeviceBackend& backend, const PixelBatch& batch, DType dtype, void* top);

}  // namespace crema
