// Stands for the CUDA backend in a build without it.
#include "core/device.hpp"

#include "core/device_timer.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr const char* kWhy =
    "this build of Crema has no CUDA support; run on the CPU, or build with `cmake --preset cuda`, "
    "which needs the CUDA toolkit and cuDNN";

}  // namespace

std::unique_ptr<DeviceBackend> make_cuda_backend(int index) {
  throw Error("cannot use CUDA device ", index, ": ", kWhy);
}

void register_device_engines(Registry&) {}

bool multiply_at_full_speed(DeviceBackend&, ProductKind, int64_t, const void*, const void*, void*) {
  return false;
}

std::vector<DeviceInfo> cuda_devices(std::string& why) {
  why = kWhy;
  return {};
}

}  // namespace crema
