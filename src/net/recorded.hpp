// RecordedPass: the actions of a pass, of which a device records runs of several and then launches
// the record in their place.
//
// The first pass runs plainly: kernels take memory and libraries choose. The second one records,
// later ones launch. A launch needs what the record was made with: the same addresses, the same
// loss scale, gradients that are cleared or not. Where a tensor has other memory, or a graph of the
// device was invalidated, the actions are recorded again. So they are where values that kernels
// keep in another form have changed, behind a plain pass, which makes that form anew.
//
// An action that waits, takes memory or copies from or to the host while it is recorded runs
// plainly. One that does so again and again stays out of records, and Net::notes says so. The
// backward pass of a node is recorded only behind a record of its forward pass: one that computes
// on the host may leave numbers there that backward takes by value.
//
// The host keeps book of which copy of a memory is current. A record repeats that too: its accesses
// (core/access_log.hpp) are made before the launch, so that what the host has written since is
// copied to the device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/access_log.hpp"
#include "core/device.hpp"
#include "net/program.hpp"

namespace crema {

class RecordedPass {
 public:
  /// Of the actions of a program, which outlives this object.
  RecordedPass(const std::vector<Action>& actions, RecordedNodes& nodes)
      : actions_(actions), nodes_(nodes) {}

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
    double loss_scale = 1;
    uint64_t generation = 0;
    bool checks = false;  // DeviceRun::take_checked()
    bool used = false;    // launched in a pass behind the one that made it
  };
  /// Actions [begin, end).
  struct Part {
    size_t begin = 0, end = 0;
    bool recordable = false;
    std::vector<std::vector<bool>> plain = {};  // parameters that were cleared before plain passes
    /// What kernels keep in another form, with the version behind the last plain pass.
    std::vector<AccessLog::Derived> forms = {};
    std::vector<Use> met = {};         // by a record that failed
    int unused = 0;                    // records that were given up before they were used
    std::vector<Record> records = {};  // the last ones
  };

  void split(const Plan& plan);
  void run_part(Plan& plan, Part& part, const std::function<void(size_t)>& run);
  void run_plainly(Plan& plan, Part& part, const std::function<void(size_t)>& run) const;
  /// Whether a plain pass has made what a record needs now.
  bool is_prepared(const Plan& plan, const Part& part) const;
  /// Error where an action cannot be recorded; `at` is that one.
  Record record(Plan& plan, Part& part, const std::function<void(size_t)>& run, size_t& at);
  /// Counts a failure to record action `at`, or the whole part behind the last one. Returns whether
  /// actions are refused from now on.
  bool count_failure(const Part& part, size_t at);
  /// The forward pass of a node was recorded, or not.
  void tell_recorded(const Part& part);
  void tell_refused(size_t action);
  void drop(Plan& plan, Part& part, size_t record) const;
  /// Counts a record that was given up, and notes where the part runs plainly from now on.
  void count_unused(Plan& plan, Part& part) const;
  bool is_valid(const Plan& plan, const Record& record) const;
  void launch(Plan& plan, const Part& part, Record& record,
              const std::function<void(size_t)>& run) const;

  const std::vector<Action>& actions_;
  std::vector<Part> parts_;
  RecordedNodes& nodes_;
  uint64_t split_at_ = 0;           // RecordedNodes::changes of the last split
  std::map<size_t, int> failures_;  // of actions, to be recorded
  bool split_again_ = true;
};

/// Notes the layers on the device that cannot be recorded by what their kernels say.
void note_unrecorded(Plan& plan, const Program& program);

}  // namespace crema
