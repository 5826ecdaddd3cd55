#include "net/accumulate.hpp"

#include <algorithm>

#include "backend/device.hpp"
#include "backend/parallel.hpp"
#include "core/dispatch.hpp"

namespace crema {

void accumulate(Context& context, const Tensor& from, Tensor& into) {
  dispatch_float(into.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (context.on_gpu()) {
      DeviceBackend& backend = context.backend();
      backend.add(into.storage(), sizeof(T), from.device<T>(backend), into.device_mut<T>(backend));
      return;
    }
    const T* x = from.host<T>();
    T* y = into.host_mut<T>();
    parallel_for(into.storage(), 16384, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] += x[i];
    });
  });
}

void add_to_each(Tensor& tensor, double value) {
  if (tensor.count() == 0) return;
  const Shape& shape = tensor.shape();
  const int64_t block = block_of(tensor.format());
  // In memory: (rows, blocks a row, pixels, block); one block of everything where there are none.
  const bool blocked = block > 1;
  const int64_t rows = blocked ? shape[0] : 1;
  const int64_t channels = blocked ? shape[1] : tensor.count();
  const int64_t width = blocked ? block : channels;
  const int64_t pixels = blocked ? shape.count(2) : 1;
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* y = tensor.host_mut<T>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t first = 0; first < channels; first += width) {
        const int64_t valid = std::min(width, channels - first);
        for (int64_t pixel = 0; pixel < pixels; ++pixel, y += width) {
          for (int64_t c = 0; c < valid; ++c) y[c] += static_cast<T>(value);
        }
      }
    }
  });
}

}  // namespace crema
