// DetectionChoice on a device: the same boxes, and rows of them.
#pragma once

#include <cstddef>
#include <memory>

#include "core/move.hpp"
#include "crema/blob.hpp"
#include "layers/detection_output/detection_choice.hpp"

namespace crema {

class ChoiceOnDevice {
 public:
  explicit ChoiceOnDevice(const DetectionSettings& settings);
  ~ChoiceOnDevice();

  /// Writes the rows of the chosen boxes, and sets the shape of the top: the host waits for their
  /// number. False, and nothing is written, where a confidence or a box is refused. `input` has no
  /// pointers; `shape` as for write_detections().
  bool run(const ComputeDevice& device, Blobs bottom, const DetectionInput<float>& input,
           Shape& shape, Blob& top);
  size_t bytes() const;

 private:
  struct Memory;
  DetectionSettings settings_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace crema
