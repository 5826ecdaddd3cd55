// LossSeed: the diff of a loss of one element, by which the layer multiplies its gradient. Kernels
// of a device read it there: the scale of the losses may change behind the host's back
// (core/device_loss_scale.hpp), and a pass that was recorded takes that of its time.
#pragma once

#include "core/functor.hpp"
#include "core/move.hpp"
#include "crema/blob.hpp"

namespace crema {

/// A factor for functors of values T, which compute with it as a Value.
template <class T, class Value = T>
struct SeedFactor {
  double known = 1;
  const T* seed = nullptr;  // one more factor, in memory of the device; null: none

  CREMA_FUNCTOR operator Value() const {  // NOLINT(google-explicit-constructor): as a number
    return static_cast<Value>(seed != nullptr ? known * static_cast<double>(*seed) : known);
  }
  SeedFactor times(double factor) const { return {known * factor, seed}; }
};

template <class T>
class LossSeed {
 public:
  LossSeed(const ComputeDevice& device, const Blob& loss) {
    if (device.on_host()) {
      known_ = static_cast<double>(*loss.diff.template read<T>());
    } else {
      seed_ = device.read<T>(loss.diff);
    }
  }
  /// The diff, divided.
  template <class Value = T>
  SeedFactor<T, Value> over(double divisor) const {
    return {known_ / divisor, seed_};
  }

 private:
  double known_ = 1;
  const T* seed_ = nullptr;
};

}  // namespace crema
