// RecordedPass: the actions of a pass, of which a device records runs of several and then launches
// the record in their place.
//
// The first pass runs plainly: kernels take memory and libraries choose. The second one records,
// later ones launch. A launch needs what the record was made with: the same addresses, the same
// loss scale, gradients that are cleared or not. Where a tensor has other memory, or a graph of the
// device was invalidated, the actions are recorded again. So they are where values have changed
// from which the host derives others, such as folded weights: once plainly, which derives them, and
// then recorded. An action that waits, takes memory or copies from or to the host while it is
// recorded stays out of records from then on, and Net::notes says so.
//
// The host keeps book of which copy of a memory is current. A record repeats that too: its accesses
// (core/access_log.hpp) are made before the launch, so that what the host has written since is
// copied to the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "core/access_log.hpp"
#include "core/device.hpp"
#include "net/program.hpp"

namespace crema {

class RecordedPass {
 public:
  /// Of the actions of a program, which outlives this object.
  explicit RecordedPass(const std::vector<Action>& actions) : actions_(actions) {}

  /// Runs all actions; `run(i)` runs action i plainly.
  void run(Plan& plan, const std::function<void(size_t)>& run);

 private:
  /// Memory that a record uses.
  struct Use {
    AccessLog::Entry entry;
    int buffer = -1;  // of the program, which may bind it to other memory; -1: none
  };
  struct Record {
    std::unique_ptr<DeviceGraph> graph;
    std::vector<Use> uses;
    std::vector<AccessLog::Derived> derived;
    std::vector<bool> cleared_before, cleared_after;  // of each parameter of the net
    bool has_seeds = false;                           // that hold the loss scale
    double loss_scale = 1;
    uint64_t generation = 0;
    bool checks = false;  // DeviceRun::take_checked()
  };
  /// Actions [begin, end).
  struct Part {
    size_t begin = 0, end = 0;
    bool recordable = false;
    bool has_run = false;
    int launches = 0;                  // since the last record was made, or tried
    int wasted = 0;                    // records in a row that were hardly launched
    std::vector<Record> records = {};  // of the last ones
  };

  void split(const Plan& plan);
  void run_part(Plan& plan, Part& part, const std::function<void(size_t)>& run);
  /// Error where an action cannot be recorded; `at` is that one.
  Record record(Plan& plan, const Part& part, const std::function<void(size_t)>& run, size_t& at);
  bool is_valid(const Plan& plan, const Record& record) const;
  /// Values that the record follows from have changed, or are gone: it never becomes valid again.
  static bool is_stale(const Record& record);
  void launch(Plan& plan, Part& part, Record& record, const std::function<void(size_t)>& run) const;

  const std::vector<Action>& actions_;
  std::vector<Part> parts_;
  std::set<size_t> refused_;  // actions that cannot be recorded
  bool split_again_ = true;
};

/// Notes the layers on the device that cannot be recorded by what their kernels say.
void note_unrecorded(Plan& plan, const Program& program);

}  // namespace crema
