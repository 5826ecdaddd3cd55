// Checks of values that a device reads, as layers queue them: a bad one is noted in the report of
// the run (core/device_run.hpp). A device of its own, as in tests of layers, has no run: what is
// bad is not told there.
//
// For sources that include layer_support/passes.hpp: the functions that queue.
#pragma once

#include <memory>
#include <utility>

#include "core/device_run.hpp"
#include "crema/layer.hpp"

namespace crema {

/// What a pass notes bad values with.
struct NotesBad {
  RunBlock* block = nullptr;  // null: nobody is told
  uint32_t check = 0;
  /// `index`: of the value, among those that finish() gets.
  CREMA_FUNCTOR void operator()(int64_t index) const {
    if (block) note_bad(*block, check, index);
  }
};

template <class T>
struct FinishCheck {
  NotesBad bad;
  const T* values;
  CREMA_FUNCTOR void operator()(int64_t) const { finish_check(*bad.block, bad.check, values); }
};

/// A check that a layer makes in each pass.
class LayerCheck {
 public:
  /// `explain` throws the Error of a value, given its index and the value; that of the first call
  /// stays.
  NotesBad begin(const Layer& layer, DeviceCheck::Explain explain) {
    if (!layer.context().on_gpu()) return {};
    if (check_ == nullptr)
      check_ =
          std::make_unique<DeviceCheck>(layer.context().device_run(), layer, std::move(explain));
    const uint32_t number = check_->use();
    return {check_->block(), number};
  }

 private:
  std::unique_ptr<DeviceCheck> check_;
};

}  // namespace crema
