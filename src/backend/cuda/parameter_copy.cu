#include "backend/cuda/kernels.cuh"
#include "backend/parameter_copy.hpp"

namespace crema {

void device_narrow(DeviceBackend& backend, const ParameterCopy& copy, DType dtype) {
  const NarrowParameters body(copy, dtype);
  cuda_for_each(cuda(backend), body.count(), body);
}

}  // namespace crema
