#include "backend/cuda/dnn_plans.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/memory_error.hpp"

namespace crema {
namespace {

bool has(const std::vector<int>& notes, int note) {
  return std::ranges::find(notes, note) != notes.end();
}

DnnNotes notes_of(const DnnDescriptor& engine) {
  const std::vector<int> given = engine.get_enums(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  DnnNotes notes;
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

/// The settings of an engine of that name, for a graph. Error if the library knows none such.
DnnDescriptor config_of(const DnnDevice& device, const DnnDescriptor& graph,
                        const std::string& name) {
  const char* at = name.c_str();
  // The number behind the next `mark`, which has to be the next word.
  const auto number = [&](const char* mark) {
    const std::string_view rest(at);
    char* end = nullptr;
    if (rest.starts_with(mark)) at += std::string_view(mark).size();
    const int64_t value = std::strtoll(at, &end, 10);
    if (!rest.starts_with(mark) || end == at) throw Error("'", name, "' names no engine of cuDNN");
    at = end;
    return value;
  };
  DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number("engine "));
  if (device.handle() == nullptr)
    device.tell(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_ATTR_ENGINE_DEVICEPROP);
  engine.finalize();
  std::vector<DnnDescriptor> choices;
  while (*at != '\0') {
    DnnDescriptor& choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(number(" k")))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, number("="))
        .finalize();
  }
  DnnDescriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!choices.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  config.finalize();
  return config;
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

std::shared_ptr<const DnnPlan> DnnCandidate::plan(std::string& why) const {
  why = why_;
  if (plan_ != nullptr || !why_.empty()) return plan_;
  try {
    plan_ = std::make_shared<const DnnPlan>(device_, config_);
    workspace_ = plan_->workspace();
  } catch (const MemoryError& error) {
    why = error.message();
  } catch (const Error& error) {
    why = why_ = error.message();
  }
  return plan_;
}

std::optional<size_t> DnnCandidate::workspace(std::string& why) const {
  if (!workspace_) plan(why);
  return workspace_;
}

std::shared_ptr<DnnPlans::Found> DnnPlans::find(const DnnGraph& graph) {
  std::shared_ptr<Found>& known = found_[graph.key()];
  if (known == nullptr) {
    known = std::make_shared<Found>();
    try {
      known->operations = graph.describe(known->tensors);
      DnnDescriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
      if (device_.handle() != nullptr) made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device_.handle());
      made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, known->operations).finalize();
      known->graph = std::make_unique<DnnDescriptor>(std::move(made));
    } catch (const Error& error) {
      known->why = error.message();
    }
  }
  known->used = ++uses_;
  const std::shared_ptr<Found> result = known;
  if (found_.size() > kMostGraphs) {
    found_.erase(
        std::ranges::min_element(found_, {}, [](const auto& entry) { return entry.second->used; }));
  }
  return result;
}

// Mode B looks more closely, and answers as A where it has no model; the last resort is slow. Of
// one mode, no more than its share: many settings of one engine leave room for other engines.
void DnnPlans::ask(Found& found, Heuristics heuristics) {
  constexpr int64_t kMostSeen = 64;  // of a mode
  Answer& answer = found.answers[static_cast<size_t>(heuristics)];
  answer.is_there = true;
  answer.why = found.why;
  if (found.graph == nullptr) return;
  ++queries_;
  int64_t left = kMost, left_in_any_order = kMostInAnyOrder;
  const auto look_at = [&](cudnnBackendHeurMode_t mode) {
    DnnDescriptor asked(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    asked.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *found.graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (device_.handle() == nullptr)
      device_.tell(asked, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    asked.finalize();
    int64_t left_of_mode = kMostOfAMode;
    const int64_t count = std::min(asked.count(CUDNN_ATTR_ENGINEHEUR_RESULTS), kMostSeen);
    for (DnnDescriptor& config : asked.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count)) {
      auto candidate = std::make_unique<DnnCandidate>(device_, std::move(config));
      const auto has_name = [&](const auto& other) { return other->name() == candidate->name(); };
      if (!candidate->notes().keeps_f32() || std::ranges::any_of(answer.candidates, has_name))
        continue;
      const bool in_order = candidate->notes().same_every_time;
      if (in_order ? left == 0 || left_of_mode == 0 : left_in_any_order == 0) continue;
      if (in_order) {
        --left;
        --left_of_mode;
      } else {
        --left_in_any_order;
      }
      answer.candidates.push_back(std::move(candidate));
    }
  };
  const auto modes = heuristics == Heuristics::usual
                         ? std::vector{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B}
                         : std::vector{CUDNN_HEUR_MODE_FALLBACK};
  for (const cudnnBackendHeurMode_t mode : modes) {
    try {
      look_at(mode);
    } catch (const Error& error) {
      answer.why = error.message();
    }
  }
  if (answer.why.empty()) answer.why = "cuDNN has no engine that sums products in f32";
}

std::vector<std::shared_ptr<const DnnCandidate>> DnnPlans::of(const DnnGraph& graph,
                                                              Heuristics heuristics,
                                                              std::string& why) {
  const std::shared_ptr<Found> found = find(graph);
  const Answer& answer = found->answers[static_cast<size_t>(heuristics)];
  if (!answer.is_there) ask(*found, heuristics);
  if (answer.candidates.empty()) why = answer.why;
  std::vector<std::shared_ptr<const DnnCandidate>> result;
  for (const auto& candidate : answer.candidates) result.emplace_back(found, candidate.get());
  return result;
}

std::shared_ptr<const DnnCandidate> DnnPlans::named(const DnnGraph& graph, const std::string& name,
                                                    std::string& why) {
  const std::shared_ptr<Found> found = find(graph);
  for (const Candidates* list :
       {&found->answers[0].candidates, &found->answers[1].candidates, &found->named}) {
    for (const auto& candidate : *list) {
      if (candidate->name() == name) return {found, candidate.get()};
    }
  }
  why = found->why;
  if (found->graph == nullptr) return nullptr;
  try {
    auto made = std::make_unique<DnnCandidate>(device_, config_of(device_, *found->graph, name));
    return {found, found->named.emplace_back(std::move(made)).get()};
  } catch (const Error& error) {
    why = error.message();
    return nullptr;
  }
}

}  // namespace crema
