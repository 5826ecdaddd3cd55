// By a loop over memory that the host can read: for the device of the tests alone.
#include "backend/parameter_copies.hpp"

#include "crema/error.hpp"

namespace crema {

void write_copy(DeviceBackend& backend, const DepthMap& map, int64_t outputs, const float* from,
                DType dtype, void* to) {
  if (!backend.host_can_read()) throw Error("this build of Crema has no device for copies");
  const auto queue = [&]<class T>(T) {
    backend.queue_loop([body = DeepenWeights<T, float>{map, from, static_cast<T*>(to)},
                        count = outputs * int64_t{map.deep_weights()}] {
      for (int64_t i = 0; i < count; ++i) body(i);
    });
  };
  switch (dtype) {
    case DType::bf16:
      return queue(bfloat16{});
    case DType::f16:
      return queue(float16{});
    default:
      return queue(float{});
  }
}

}  // namespace crema
