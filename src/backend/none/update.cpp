// Never called: a build without CUDA makes no context on a device.
#include "backend/update.hpp"

namespace crema {
namespace {

[[noreturn]] void refuse() { throw Error("this build of Crema has no device to update on"); }

}  // namespace

bool device_sgd(DeviceBackend&, const UpdateRuns&, const SgdStep&, Regularization, const Tensor&,
                Tensor&, Tensor&) {
  refuse();
}

double device_squares(DeviceBackend&, const UpdateRuns&, const Tensor&) { refuse(); }

}  // namespace crema
