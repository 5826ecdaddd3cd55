// Never called: a build without CUDA makes no context on a device.
#include "backend/update.hpp"

namespace crema {
namespace {

[[noreturn]] void refuse() { throw Error("this build of Crema has no device to update on"); }

}  // namespace

bool device_update(DeviceBackend&, const UpdateRuns&, const AnyUpdateRule&, const UpdateSettings&,
                   const UpdateStep&, const UpdateArrays&) {
  refuse();
}

double device_squares(DeviceBackend&, const UpdateRuns&, const UpdateArrays&) { refuse(); }

}  // namespace crema
