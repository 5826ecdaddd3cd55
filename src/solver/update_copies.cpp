#include "solver/update_copies.hpp"

#include <cstring>
#include <type_traits>

#include "core/memory.hpp"
#include "solver/update_rule.hpp"

namespace crema {
namespace {

/// A copy that is out of date cannot be made anew between the values that a record reads and those
/// that the record writes.
void refuse_stale(const AccessLog& log) {
  for (const AccessLog::Followed& followed : log.followers()) {
    const std::shared_ptr<Follower> follower = followed.follower.lock();
    if (follower != nullptr && !follower->is_current())
      throw StaleRecord("copies of parameters that have changed are made anew");
  }
}

}  // namespace

CopyTable UpdateCopies::prepare(const ParameterArena& arena, DeviceRun& run,
                                DeviceBackend& backend) {
  static_assert(std::is_trivially_copyable_v<CopyTarget>);
  static_assert(alignof(CopyTarget) <= alignof(int64_t));
  followed_.clear();
  found_first_.clear();
  found_targets_.clear();
  AccessLog* const log = backend.access_log();
  if (log != nullptr) refuse_stale(*log);
  const ParameterCopies& copies = ParameterCopies::of(run);
  for (const ParameterArena::Segment& segment : arena.segments()) {
    if (!learns(*segment.parameter)) continue;
    found_first_.push_back(std::ssize(found_targets_));
    for (auto& copy : copies.current(*segment.parameter->storage()->data().memory())) {
      found_targets_.push_back(copy->target());
      followed_.push_back(std::move(copy));
    }
  }
  if (found_targets_.empty()) return {};
  found_first_.push_back(std::ssize(found_targets_));
  if (log != nullptr) {
    for (const auto& copy : followed_) log->note_follower(copy, true);
  }
  const size_t first_bytes = found_first_.size() * sizeof(int64_t);
  if (found_first_ != first_ || found_targets_ != targets_) {
    if (log != nullptr)
      throw StaleRecord("an update writes other copies of parameters than before");
    const size_t target_bytes = found_targets_.size() * sizeof(CopyTarget);
    table_.reshape(Shape{static_cast<int64_t>(first_bytes + target_bytes)});
    auto* const bytes = table_.overwrite<uint8_t>();
    std::memcpy(bytes, found_first_.data(), first_bytes);
    std::memcpy(bytes + first_bytes, found_targets_.data(), target_bytes);
    table_.seal();
    first_ = found_first_;
    targets_ = found_targets_;
  }
  // A record holds for these copies alone.
  Memory& memory = *table_.memory();
  memory.note_derived(memory.version());
  const auto* const table = table_.read<uint8_t>(&backend);
  return {reinterpret_cast<const int64_t*>(table),
          reinterpret_cast<const CopyTarget*>(table + first_bytes)};
}

void UpdateCopies::finish() {
  for (const auto& copy : followed_) copy->note_written();
  followed_.clear();
}

}  // namespace crema
