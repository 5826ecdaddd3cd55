#include "net/accumulate.hpp"

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

void add_scalar(Tensor& tensor, double value) {
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* y = tensor.host_mut<T>();
    for (int64_t i = 0; i < tensor.storage(); ++i) y[i] += static_cast<T>(value);
  });
}

}  // namespace crema
