// What kernels read of the present pass, and what they report of it: structures in the memory of a
// device, for functors.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// Of RunState: random numbers are functions of it.
struct PassState {
  uint64_t seed = 0, iteration = 0, pass = 0;
  bool operator==(const PassState&) const = default;
};

enum class DeviceFailure : int32_t { none, value, loss, gradient, step };

/// Of an iteration. A failure stays until DeviceRun::clear(): as long as it is there, no update
/// changes a parameter, and no batch takes the place of the one that failed.
struct DeviceReport {
  static constexpr uint64_t kNone = ~uint64_t{0};
  /// Bits of an index within a check; the number of the check is above them.
  static constexpr int kIndexBits = 44;

  double loss = 0;       // the sum over the passes of the iteration
  double pass_loss = 0;  // of the last pass; of that which failed
  uint64_t bad = kNone;  // the first bad value: number of its check, and its index
  double value = 0;      // that value
  uint64_t pass = 0;     // that failed
  DeviceFailure failure = DeviceFailure::none;
  int32_t bad_step = 0;  // a step of the present update is not finite
  /// A gradient was not finite, and the loss scale has become smaller in place of an update.
  int32_t skipped = 0;
};

/// In the memory of the device.
struct RunBlock {
  PassState state;
  DeviceReport report;

  CREMA_FUNCTOR bool failed() const { return report.failure != DeviceFailure::none; }
  CREMA_FUNCTOR void fail(DeviceFailure failure) {
    if (failed()) return;
    report.failure = failure;
    report.pass = state.pass;
  }
};

/// Notes a bad value of a check, of which the first counts. Many threads may do that at once.
CREMA_FUNCTOR void note_bad(RunBlock& block, uint32_t check, int64_t index) {
  const uint64_t place = uint64_t{check} << DeviceReport::kIndexBits | static_cast<uint64_t>(index);
#ifdef __CUDA_ARCH__
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  atomicMin(reinterpret_cast<unsigned long long*>(&block.report.bad),
            static_cast<unsigned long long>(place));
#else
  if (place < block.report.bad) block.report.bad = place;
#endif
}

/// Behind a check: makes a failure of what it noted. `values` are those that it looked at.
template <class T>
CREMA_FUNCTOR void finish_check(RunBlock& block, uint32_t check, const T* values) {
  const uint64_t bad = block.report.bad;
  if (block.failed() || bad >> DeviceReport::kIndexBits != check) return;
  const uint64_t index = bad & ((uint64_t{1} << DeviceReport::kIndexBits) - 1);
  block.report.value = static_cast<double>(values[index]);
  block.fail(DeviceFailure::value);
}

/// Behind a forward pass whose losses sum up to pass_loss.
CREMA_FUNCTOR void finish_losses(RunBlock& block, bool first_pass) {
  if (block.failed()) return;
  DeviceReport& report = block.report;
  report.loss = first_pass ? report.pass_loss : report.loss + report.pass_loss;
  // False for infinities and NaN.
  if (!(report.pass_loss - report.pass_loss == 0)) block.fail(DeviceFailure::loss);
}

}  // namespace crema
