// Labels that lie in the memory of a device: checked and converted there, without a wait. A bad one
// is noted in the report of the run (core/device_run.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/device_run.hpp"
#include "core/move.hpp"

namespace crema {

/// What labels may be.
struct LabelRange {
  int64_t classes = 0;
  std::optional<int> ignore = {}, background = {};
};

/// Queued: `classes`, i32, becomes the class of each label, -1 where it is ignored or bad, and the
/// number of classes where it is background. With `valid`, f64 of one element, which becomes the
/// number of labels that are not ignored.
void read_device_labels(const ComputeDevice& device, DeviceCheck& check, const Tensor& labels,
                        const LabelRange& range, Tensor& classes, Tensor* valid);

}  // namespace crema
