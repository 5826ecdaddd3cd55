#include "backend/cuda/dnn_plans.hpp"

#include <algorithm>

#include "crema/error.hpp"

namespace crema {
namespace {

bool has(const std::vector<int>& notes, int note) {
  return std::ranges::find(notes, note) != notes.end();
}

DnnNotes notes_of(const DnnDescriptor& engine) {
  const std::vector<int> given = engine.get_enums(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  DnnNotes notes;
  notes.tensor_cores = has(given, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  notes.same_every_time = !has(given, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  notes.rounds_inputs = has(given, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  notes.rounds_sums = has(given, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  notes.transforms =
      has(given, CUDNN_NUMERICAL_NOTE_WINOGRAD) || has(given, CUDNN_NUMERICAL_NOTE_FFT);
  return notes;
}

std::string name_of(const DnnDescriptor& config, const DnnDescriptor& engine) {
  std::string name = text("engine ", engine.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  for (const DnnDescriptor& knob :
       config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                              CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    name += text(" k", knob.get_enums(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1)[0],
                 "=", knob.get_int64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return name;
}

}  // namespace

DnnDevice DnnDevice::described(const std::string& json) {
  DnnDevice device(nullptr, "described");
  device.properties_ =
      std::make_shared<DnnDescriptor>(DnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  device.properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json).finalize();
  return device;
}

void DnnDevice::tell(DnnDescriptor& to, cudnnBackendAttributeName_t with_handle,
                     cudnnBackendAttributeName_t described) const {
  properties_ != nullptr ? to.set(described, *properties_) : to.set(with_handle, handle_);
}

DnnPlan::DnnPlan(const DnnDevice& device, const DnnDescriptor& engine_config)
    : plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  device.tell(plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine_config).finalize();
  workspace_ = static_cast<size_t>(plan_.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

void DnnRun::operator()(cudnnHandle_t handle, const DnnPlan& plan, const DnnPointers& pointers,
                        void* workspace) {
  if (pack_ == nullptr || pointers != pointers_ || workspace != workspace_) {
    pack_.reset();
    std::vector<int64_t> ids;
    std::vector<void*> data;
    for (const auto& [id, pointer] : pointers) {
      ids.push_back(id);
      data.push_back(pointer);
    }
    auto pack = std::make_unique<DnnDescriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
        .finalize();
    pack_ = std::move(pack);
    pointers_ = pointers;
    workspace_ = workspace;
  }
  dnn_check(cudnnBackendExecute(handle, plan.descriptor().get(), pack_->get()), "running a plan");
}

DnnCandidate::DnnCandidate(const DnnDevice& device, DnnDescriptor config)
    : device_(device), config_(std::move(config)) {
  const DnnDescriptor engine = std::move(
      config_.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)
          .at(0));
  name_ = name_of(config_, engine);
  notes_ = notes_of(engine);
}

const DnnPlan* DnnCandidate::plan(std::string& why) const {
  if (plan_ == nullptr && why_.empty()) {
    try {
      plan_ = std::make_unique<DnnPlan>(device_, config_);
    } catch (const Error& error) {
      why_ = error.message();
    }
  }
  why = why_;
  return plan_.get();
}

void DnnPlans::find(const DnnGraph& graph, Found& found) const {
  found.operations = graph.describe(found.tensors);
  found.graph = std::make_unique<DnnDescriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (device_.handle() != nullptr) {
    found.graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device_.handle());
  }
  found.graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, found.operations).finalize();
  // Mode B looks more closely, and answers as A where it has no model; the last resort is slow. Of
  // one mode, no more than its share: many settings of one engine leave room for other engines.
  for (const cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK && !found.candidates.empty()) return;
    try {
      DnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *found.graph)
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
      if (device_.handle() == nullptr)
        device_.tell(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                     CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
      heuristics.finalize();
      const int64_t count = std::min(heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS), kMostOfAMode);
      for (DnnDescriptor& config : heuristics.get_descriptors(
               CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count)) {
        auto candidate = std::make_unique<DnnCandidate>(device_, std::move(config));
        const auto has_name = [&](const auto& other) { return other->name() == candidate->name(); };
        if (std::ssize(found.candidates) < kMost &&
            std::ranges::none_of(found.candidates, has_name)) {
          found.candidates.push_back(std::move(candidate));
        }
      }
    } catch (const Error& error) {
      found.why = error.message();
    }
  }
}

const std::vector<std::unique_ptr<DnnCandidate>>& DnnPlans::of(const DnnGraph& graph,
                                                               std::string& why) {
  const auto [entry, is_new] = found_.try_emplace(graph.key());
  Found& found = entry->second;
  if (is_new) {
    try {
      find(graph, found);
    } catch (const Error& error) {
      found.why = error.message();
    }
    if (found.candidates.empty() && found.why.empty()) found.why = "cuDNN has no engine for it";
  }
  if (found.candidates.empty()) why = found.why;
  return found.candidates;
}

}  // namespace crema
