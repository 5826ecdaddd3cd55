// RecordedPass: the actions of a pass, of which a device records runs of several and then launches
// the record in their place.
//
// The first pass runs plainly: kernels take memory and libraries choose. The second one records,
// later ones launch. A launch needs what the record was made with: the same addresses, and
// gradients that are cleared or not. Where a tensor has other memory, or a graph of the device was
// invalidated, the actions are recorded again. So they are where values that kernels keep in
// another form have changed, behind a plain pass, which makes that form anew.
//
// An action that waits, takes memory or copies from or to the host while it is recorded runs
// plainly. One that does so again and again stays out of records, as does one that keeps a form of
// values which change in each pass, and Net::notes says so. The backward pass of a node is recorded
// only behind a record of its forward pass, or in one with it: one that computes on the host may
// leave numbers there that backward takes by value.
//
// The host keeps book of which copy of a memory is current. A record repeats that too: its accesses
// (core/access_log.hpp) are made before the launch, so that what the host has written since is
// copied to the device. Copies of parameters that have changed are made anew then, too. As long as
// no memory of a device has come or gone (core/memory_places.hpp), and the tensors of the program
// have the memory that they had, that takes no locks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
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
  /// Memory that a record uses, once for each buffer of the program that lies in it.
  struct Use {
    AccessLog::Entry entry;
    int buffer = -1;    // of the program, which may bind it to other memory; -1: none
    size_t offset = 0;  // in the memory, where the first tensor of the buffer lay
  };
  struct Record {
    std::unique_ptr<DeviceGraph> graph;
    std::vector<Use> uses;
    std::vector<Memory*> memories;  // of the uses, as long as memory_places() is `places`
    uint64_t places = 0;
    std::vector<AccessLog::Derived> derived;
    std::vector<AccessLog::Followed> followers;
    std::vector<bool> cleared_before, cleared_after;  // of each parameter of the net
    uint64_t generation = 0;
    bool checks = false;  // DeviceRun::take_checked()
    bool used = false;    // launched in a pass behind the one that made it
  };
  /// What the kernel of an action keeps in another form, with the version behind the last plain
  /// pass.
  struct Form {
    AccessLog::Derived of;
    size_t action;
  };
  /// Actions [begin, end).
  struct Part {
    size_t begin = 0, end = 0;
    bool recordable = false;
    std::vector<std::vector<bool>> plain = {};  // parameters that were cleared before plain passes
    std::vector<Form> forms = {};
    std::vector<Use> met = {};                        // by a record that failed
    std::vector<AccessLog::Followed> followers = {};  // the same
    int unused = 0;                    // records that were given up before they were used
    std::vector<Record> records = {};  // the last ones
  };

  void split(const Plan& plan);
  void run_part(Plan& plan, Part& part, const std::function<void(size_t)>& run);
  void run_plainly(Part& part, const std::function<void(size_t)>& run) const;
  static void add_form(Part& part, const AccessLog::Derived& form, size_t action);
  /// Whether a plain pass has made what a record needs now. Counts forms that are not current.
  bool is_prepared(Plan& plan, Part& part);
  /// Whether the forward passes of all nodes that the part goes back through are recorded, or will
  /// be in the same record.
  bool follows_records(const Part& part) const;
  /// Error where an action cannot be recorded; `at` is that one.
  Record record(Plan& plan, Part& part, const std::function<void(size_t)>& run, size_t& at);
  /// Counts a failure to record action `at`, or the whole part behind the last one, and says so
  /// where actions are refused from now on.
  void count_failure(Plan& plan, const Part& part, size_t at, const std::string& why);
  /// A record of the part was given up before it was used.
  void count_unused(Plan& plan, Part& part) const;
  /// The forward pass of a node was recorded, or not.
  void tell_recorded(const Part& part);
  void tell_refused(size_t action);
  bool is_valid(const Plan& plan, Record& record) const;
  /// Whether `memories` are those of the uses: an input may have been bound to another one, or to
  /// another part of it.
  bool knows_memories(const Plan& plan, const Record& record) const;
  void launch(Plan& plan, Record& record) const;
  /// Of the uses of a record. False if one of them is gone, or its contents have moved.
  bool find_memories(const Plan& plan, Record& record) const;

  std::vector<bool> cleared() const;
  bool are_cleared(const std::vector<bool>& wanted) const;
  void set_cleared(const std::vector<bool>& wanted) const;

  const std::vector<Action>& actions_;
  std::vector<Part> parts_;
  RecordedNodes& nodes_;
  uint64_t split_at_ = 0;               // RecordedNodes::changes of the last split
  std::vector<Parameter*> parameters_;  // of the net
  std::map<size_t, int> failures_;      // of actions, to be recorded
  std::map<size_t, int> outdated_;      // passes in a row in which a form of an action was
  bool split_again_ = true;
};

/// Notes the layers on the device that cannot be recorded by what their kernels say.
void note_unrecorded(Plan& plan, const Program& program);

}  // namespace crema
