// By loops over memory that the host can read: for the device of the tests alone.
#include "backend/pixels.hpp"

#include "core/dispatch.hpp"

namespace crema {

void device_pixels(DeviceBackend& backend, const PixelBatch& batch, DType dtype, void* top) {
  dispatch_float(dtype, [&]<class T>(T) {
    backend.queue_loop([convert = ConvertPixel<T, uint32_t>{batch, static_cast<T*>(top)}] {
      for (int64_t i = 0; i < convert.batch.count(); ++i) convert(i);
    });
  });
}

}  // namespace crema
