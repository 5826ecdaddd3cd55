// Plans of cuDNN for graphs: which of its engines can compute a graph, with what notes and how much
// scratch memory, and how one runs. What was asked for once is kept.
//
// Heuristics name the engines, the likely fastest first. An engine becomes a plan, which compiles
// it in some cases, when it is first needed.
#pragma once

#include <map>
#include <memory>
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
  bool tensor_cores = false;
  bool same_every_time = true;  // sums are in one order
  bool rounds_inputs = false;   // f32 is read as a 16-bit type
  bool rounds_sums = false;     // sums are kept in a 16-bit type
  bool transforms = false;      // Winograd or FFT
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
  /// Made at the first call; null where the library cannot make it, for the reason in `why`.
  const DnnPlan* plan(std::string& why) const;

 private:
  const DnnDevice& device_;
  DnnDescriptor config_;
  std::string name_;
  DnnNotes notes_;
  mutable std::unique_ptr<DnnPlan> plan_;
  mutable std::string why_;  // "": not tried, or made
};

class DnnPlans {
 public:
  explicit DnnPlans(DnnDevice device) : device_(std::move(device)) {}
  DnnPlans(const DnnPlans&) = delete;
  DnnPlans& operator=(const DnnPlans&) = delete;

  const DnnDevice& device() const { return device_; }
  /// The candidates of a graph, the likely fastest first, kMost at most. Empty if there is none;
  /// `why` then says why. They live as long as this object.
  const std::vector<std::unique_ptr<DnnCandidate>>& of(const DnnGraph& graph, std::string& why);
  /// How often the library was asked.
  size_t queries() const { return found_.size(); }

  static constexpr int64_t kMost = 12, kMostOfAMode = 9;

 private:
  struct Found {
    std::vector<DnnDescriptor> tensors, operations;
    std::unique_ptr<DnnDescriptor> graph;
    std::vector<std::unique_ptr<DnnCandidate>> candidates;
    std::string why;
  };
  void find(const DnnGraph& graph, Found& found) const;

  DnnDevice device_;
  std::map<std::string, Found> found_;
};

}  // namespace crema
