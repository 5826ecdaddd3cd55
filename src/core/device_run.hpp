// DeviceRun: what the kernels of a context on a device read of the present pass, and what they
// report. Nobody waits for a report before it is needed.
//
// A check of values that a device reads, such as labels, does not throw: it notes the first bad
// value in the report. Who reads the report throws the Error that the layer would have thrown
// (DeviceCheck).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "core/device.hpp"
#include "core/device_report.hpp"

namespace crema {

class DeviceCheck;
class Layer;
class ParameterCopies;  // backend/parameter_copies.hpp

/// One thread at a time may use it, as the context.
class DeviceRun {
 public:
  explicit DeviceRun(DeviceBackend& backend);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  /// In the memory of the device.
  RunBlock* block() { return block_; }
  /// Not 0 once something has failed.
  const int32_t* stop() { return reinterpret_cast<const int32_t*>(&block_->report.failure); }

  /// Queued: kernels behind it read this state.
  void begin_pass(const PassState& state);
  /// Queued: forgets failures.
  void clear();

  /// Queues a copy of the report as it is then, and returns its number. For who trains; report()
  /// takes no number.
  uint64_t queue_report();
  /// Waits for a copy, one of the last kReports.
  DeviceReport wait_report(uint64_t number);
  static constexpr uint64_t kReports = 4;
  /// The report as it is now; waits for all that is queued.
  DeviceReport report();

  /// Of the parameters of all nets on this device; null until somebody makes it.
  std::shared_ptr<ParameterCopies>& copies() { return copies_; }

  /// Whether a check was queued since the last call.
  bool take_checked() { return std::exchange(checked_, false); }
  /// A check was queued, as part of a record.
  void note_checked() { checked_ = true; }
  /// The layer whose check found the bad value of the report; null if it is gone.
  const Layer* layer_of(const DeviceReport& report) const;
  /// Throws the Error of that check.
  void explain(const DeviceReport& report) const;

 private:
  friend class DeviceCheck;
  struct Slot {
    DeviceReport* report = nullptr;  // pinned
    std::unique_ptr<DeviceEvent> copied;
  };
  void copy_report(const Slot& slot);

  DeviceBackend& backend_;
  RunBlock* block_ = nullptr;
  PassState state_;
  std::array<Slot, kReports> slots_;
  uint64_t reports_ = 0;
  std::map<uint32_t, const DeviceCheck*> checks_;
  uint32_t next_check_ = 0;
  bool checked_ = false;
  Slot now_;  // of report()
  std::shared_ptr<ParameterCopies> copies_;
};

/// A check of a layer. Checks that are made earlier count as earlier ones of a pass.
class DeviceCheck {
 public:
  /// `explain` throws the Error for a bad value, given its index and the value.
  using Explain = std::function<void(int64_t index, double value)>;
  DeviceCheck(DeviceRun& run, const Layer& layer, Explain explain);
  ~DeviceCheck();
  DeviceCheck(const DeviceCheck&) = delete;
  DeviceCheck& operator=(const DeviceCheck&) = delete;

  /// Its number, for note_bad() and finish_check(), which the caller queues.
  uint32_t use() {
    run_.checked_ = true;
    return number_;
  }
  RunBlock* block() const { return run_.block_; }

 private:
  friend class DeviceRun;
  DeviceRun& run_;
  const Layer& layer_;
  Explain explain_;
  uint32_t number_;
};

}  // namespace crema
