// Plans of cuDNN for graphs: which of its engines can compute a graph, with what notes and how much
// scratch memory, and how one runs. What was asked for once is kept, for the graphs that were used
// last.
//
// Heuristics name the engines, the likely fastest first. An engine becomes a plan, which compiles
// it in some cases, when it is first needed. Who runs a plan keeps it; of the others, which were
// measured and are slower, forget() drops the plan with its code on the device.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/dnn_graph.hpp"

namespace crema {

/// What plans are made for: the device of a handle, or one that is only described, for which plans
/// can be made but not run.
class DnnDevice {
 public:
  /// `handle` must outlive the plans. `name`: of the device and all versions that times depend on.
  DnnDevice(cudnnHandle_t handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  /// The device that the library's JSON form describes.
  static DnnDevice described(const std::string& json);

  const std::string& name() const { return name_; }
  cudnnHandle_t handle() const { return handle_; }
  /// Sets `with_handle` or `described` of a descriptor.
  void tell(DnnDescriptor& to, cudnnBackendAttributeName_t with_handle,
            cudnnBackendAttributeName_t described) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<DnnDescriptor> properties_;  // null with a handle
  std::string name_;
};

/// What the results and their speed may come from.
struct DnnNotes {
  bool same_every_time = true;  // sums are in one order
  bool rounds_inputs = false;   // f32 is read as a 16-bit type
  bool rounds_sums = false;     // sums are kept in a 16-bit type
  bool transforms = false;      // Winograd or FFT

  /// Products are of the factors as they are, or as TF32 rounds them, and are summed in f32.
  bool keeps_f32() const { return !rounds_inputs && !rounds_sums && !transforms; }
};

/// The pointers of a run, by DnnTensor::id.
using DnnPointers = std::vector<std::pair<int64_t, void*>>;

class DnnPlan {
 public:
  DnnPlan(const DnnDevice& device, const DnnDescriptor& engine_config);

  const DnnDescriptor& descriptor() const { return plan_; }
  size_t workspace() const { return workspace_; }

 private:
  DnnDescriptor plan_;
  size_t workspace_;
};

/// Runs plans. It keeps what it tells the library of the pointers, which mostly stay the same.
class DnnRun {
 public:
  /// In the stream of the handle. `workspace` has the plan's workspace() bytes.
  void operator()(cudnnHandle_t handle, const DnnPlan& plan, const DnnPointers& pointers,
                  void* workspace);

 private:
  DnnPointers pointers_;
  void* workspace_ = nullptr;
  std::unique_ptr<DnnDescriptor> pack_;
};

/// An engine with its settings, for one graph.
class DnnCandidate {
 public:
  DnnCandidate(const DnnDevice& device, DnnDescriptor config);

  /// Such as "engine 11 k2=4 k13=1", the same in each process.
  const std::string& name() const { return name_; }
  const DnnNotes& notes() const { return notes_; }
  /// Made at the first call, and kept until forget(). Null where the library cannot make it, for
  /// the reason in `why`: for good, unless it was short of memory.
  std::shared_ptr<const DnnPlan> plan(std::string& why) const;
  /// Its scratch memory, which a forgotten plan need not be made again for.
  std::optional<size_t> workspace(std::string& why) const;
  void forget() const { plan_.reset(); }

 private:
  const DnnDevice& device_;
  DnnDescriptor config_;
  std::string name_;
  DnnNotes notes_;
  mutable std::shared_ptr<const DnnPlan> plan_;
  mutable std::optional<size_t> workspace_;  // known once a plan was made
  mutable std::string why_;                  // "": not tried, or made
};

class DnnPlans {
 public:
  explicit DnnPlans(DnnDevice device) : device_(std::move(device)) {}
  DnnPlans(const DnnPlans&) = delete;
  DnnPlans& operator=(const DnnPlans&) = delete;

  const DnnDevice& device() const { return device_; }
  /// What the heuristics suggest, or the library's slow last resort.
  enum class Heuristics : uint8_t { usual, last_resort };
  /// The candidates of a graph that keep f32, the likely fastest first: kMost at most that give the
  /// same bits every time, and kMostInAnyOrder others. Empty if there is none; `why` then says why.
  std::vector<std::shared_ptr<const DnnCandidate>> of(const DnnGraph& graph, Heuristics heuristics,
                                                      std::string& why);
  /// The candidate of that name, for which no heuristics are asked; null if there is none.
  std::shared_ptr<const DnnCandidate> named(const DnnGraph& graph, const std::string& name,
                                            std::string& why);
  /// How often the heuristics were asked.
  size_t queries() const { return queries_; }
  /// Graphs that are kept.
  size_t graphs() const { return found_.size(); }

  static constexpr int64_t kMost = 12, kMostOfAMode = 9, kMostInAnyOrder = 4;
  static constexpr size_t kMostGraphs = 512;

 private:
  using Candidates = std::vector<std::unique_ptr<DnnCandidate>>;
  struct Answer {
    bool is_there = false;
    Candidates candidates = {};
    std::string why = {};
  };
  /// Who has one of its candidates keeps all of it.
  struct Found {
    std::vector<DnnDescriptor> tensors, operations;
    std::unique_ptr<DnnDescriptor> graph;  // null: the library refuses it
    std::string why;
    std::array<Answer, 2> answers;  // by Heuristics
    Candidates named;
    uint64_t used = 0;
  };
  std::shared_ptr<Found> find(const DnnGraph& graph);
  void ask(Found& found, Heuristics heuristics);

  DnnDevice device_;
  std::map<std::string, std::shared_ptr<Found>> found_;  // by DnnGraph::key()
  size_t queries_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace crema
