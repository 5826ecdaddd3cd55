// Batches of images.
#include "backend/cuda/kernels.cuh"
#include "backend/pixels.hpp"
#include "core/dispatch.hpp"

namespace crema {

void device_pixels(DeviceBackend& device, const PixelBatch& batch, DType dtype, void* top) {
  CudaBackend& backend = cuda(device);
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const to = static_cast<T*>(top);
    if (batch.count() <= INT32_MAX) {
      cuda_for_each(backend, batch.count(), ConvertPixel<T, uint32_t>{batch, to});
    } else {
      cuda_for_each(backend, batch.count(), ConvertPixel<T, uint64_t>{batch, to});
    }
  });
}

}  // namespace crema
