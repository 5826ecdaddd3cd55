// Copies of parameters that an update on a device writes along with them
// (backend/parameter_copies.hpp).
#pragma once

#include <memory>
#include <vector>

#include "backend/copy_target.hpp"
#include "backend/parameter_copies.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {

class UpdateCopies {
 public:
  /// In front of an update, before anything makes another version of the parameters: the copies of
  /// what learns that are up to date, for the update. Others are left to who reads them. The table
  /// is copied to the device where it differs from that of the last update. While work is
  /// recorded, StaleRecord where it differs, and where a copy that is read before is out of date.
  CopyTable prepare(const ParameterArena& arena, DeviceRun& run, DeviceBackend& backend);
  /// Behind it, once the update is queued.
  void finish();

 private:
  std::vector<std::shared_ptr<ParameterCopy>> followed_;  // between the two
  std::vector<int64_t> first_, found_first_;
  std::vector<CopyTarget> targets_, found_targets_;
  Tensor table_{Shape{0}, DType::u8};  // first_, then targets_
};

}  // namespace crema
