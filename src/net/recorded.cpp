#include "net/recorded.hpp"

#include <algorithm>
#include <map>

#include "core/device_run.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// More records in a row that are launched less than kWorthwhile times, and a part runs plainly:
/// what it needs changes all the time.
constexpr int kMostWasted = 24, kWorthwhile = 4;
/// Those that are kept: for cleared gradients and for others.
constexpr size_t kMostKept = 2;
constexpr size_t kFewestActions = 2;

bool may_record(const Plan& plan) {
  return plan.context->on_gpu() && plan.options.graphs && !plan.debug_info && !plan.logs_passes &&
         !plan.on_gradient;
}

/// A seed that the layer reads on the host.
bool is_host_seed(const Action& action) {
  return action.kind == Action::Kind::seed && action.weight != 0 && action.into->count() <= 1;
}

/// A seed that is queued on the device, with the loss scale of the time.
bool is_device_seed(const Action& action) {
  return action.kind == Action::Kind::seed && action.weight != 0 && !is_host_seed(action);
}

bool kernel_allows(const Plan& plan, const Program& program, NodeId id) {
  const ProgramNode& node = program[id];
  return node.kernel != nullptr && node.kernel->capturable() && !node.follows_values &&
         node.layer->top_shapes() != TopShapes::from_values && !node.layer->is_source() &&
         !falls_back_to_cpu(plan, node) && plan.noise.count(id) == 0;
}

bool allows(const Plan& plan, const Action& action) {
  const bool computes =
      action.kind == Action::Kind::forward || action.kind == Action::Kind::backward;
  return !computes || kernel_allows(plan, *plan.program, action.node);
}

std::vector<Parameter*> parameters_of(const Plan& plan) {
  std::vector<Parameter*> all;
  for (Layer* layer : plan.layers) {
    for (const auto& parameter : layer->params()) all.push_back(parameter.get());
  }
  return all;
}

std::vector<bool> cleared(const Plan& plan) {
  std::vector<bool> all;
  for (const Parameter* parameter : parameters_of(plan)) all.push_back(parameter->is_cleared());
  return all;
}

void set_cleared(const Plan& plan, const std::vector<bool>& wanted) {
  const std::vector<Parameter*> all = parameters_of(plan);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->is_cleared() == wanted[i]) continue;
    if (wanted[i]) {
      all[i]->clear_gradient();
    } else {
      all[i]->begin_gradient();
    }
  }
}

std::shared_ptr<Memory> memory_of(const Program& program, int buffer) {
  return program.buffers[static_cast<size_t>(buffer)].tensors.front().tensor->memory();
}

/// Records what is queued as long as it lives, or until end().
class Recording {
 public:
  Recording(DeviceBackend& backend, AccessLog& log) : backend_(backend) {
    backend_.begin_capture();
    backend_.set_access_log(&log);
    open_ = true;
  }
  ~Recording() {
    if (!open_) return;
    backend_.set_access_log(nullptr);
    backend_.abandon_capture();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<DeviceGraph> end() {
    std::unique_ptr<DeviceGraph> graph = backend_.end_capture();
    backend_.set_access_log(nullptr);
    open_ = false;
    return graph;
  }

 private:
  DeviceBackend& backend_;
  bool open_ = false;
};

}  // namespace

void RecordedPass::split(const Plan& plan) {
  std::vector<Part> parts;
  for (size_t i = 0; i < actions_.size(); ++i) {
    const bool recordable = refused_.count(i) == 0 && allows(plan, actions_[i]);
    if (parts.empty() || parts.back().recordable != recordable)
      parts.push_back({.begin = i, .end = i, .recordable = recordable});
    ++parts.back().end;
  }
  for (Part& part : parts) {
    part.recordable = part.recordable && part.end - part.begin >= kFewestActions;
    for (Part& known : parts_) {
      part.has_run = part.has_run || known.has_run;
      if (!part.recordable || known.begin != part.begin || known.end != part.end) continue;
      part.launches = known.launches;
      part.wasted = known.wasted;
      part.records = std::move(known.records);
    }
  }
  parts_ = std::move(parts);
  split_again_ = false;
}

void RecordedPass::run(Plan& plan, const std::function<void(size_t)>& run) {
  if (!may_record(plan)) {
    for (size_t i = 0; i < actions_.size(); ++i) run(i);
    return;
  }
  if (split_again_) split(plan);
  for (Part& part : parts_) run_part(plan, part, run);
}

void RecordedPass::run_part(Plan& plan, Part& part, const std::function<void(size_t)>& run) {
  const auto run_plainly = [&] {
    for (size_t i = part.begin; i < part.end; ++i) run(i);
    part.has_run = true;
  };
  if (!part.recordable || !part.has_run || part.wasted >= kMostWasted) return run_plainly();
  const auto usable =
      std::ranges::find_if(part.records, [&](const Record& r) { return is_valid(plan, r); });
  if (usable != part.records.end()) return launch(plan, part, *usable, run);
  std::erase_if(part.records, is_stale);
  // Those whose memory is gone are of no use any more.
  if (part.records.size() == kMostKept) part.records.erase(part.records.begin());
  part.wasted = part.launches >= kWorthwhile ? 0 : part.wasted + 1;
  part.launches = 0;
  const std::vector<bool> before = cleared(plan);
  size_t at = part.begin;
  try {
    part.records.push_back(record(plan, part, run, at));
  } catch (const StaleRecord&) {
    set_cleared(plan, before);
    return run_plainly();
  } catch (const Error& error) {
    // Whether that is an Error of the layer itself shows when it runs plainly.
    set_cleared(plan, before);
    if (at < part.end) {
      refused_.insert(at);
    } else {  // all together
      for (at = part.begin; at < part.end; ++at) refused_.insert(at);
    }
    split_again_ = true;
    run_plainly();
    plan.note(text("CUDA graphs leave out a step that cannot be recorded: ", error.what()));
    return;
  }
  plan.context->backend().launch(*part.records.back().graph);
}

RecordedPass::Record RecordedPass::record(Plan& plan, const Part& part,
                                          const std::function<void(size_t)>& run, size_t& at) {
  DeviceBackend& backend = plan.context->backend();
  DeviceRun& device_run = plan.context->device_run();
  const bool checked = device_run.take_checked();
  Record made;
  made.cleared_before = cleared(plan);
  AccessLog log;
  try {
    Recording recording(backend, log);
    for (at = part.begin; at < part.end; ++at) {
      if (is_host_seed(actions_[at])) {
        if (!actions_[at].into->has_memory()) throw Error("a loss has no memory yet");
        log.allow_host(actions_[at].into->memory().get());
      }
      run(at);
    }
    made.graph = recording.end();
  } catch (...) {
    if (checked) device_run.note_checked();
    throw;
  }
  made.checks = device_run.take_checked();
  if (checked || made.checks) device_run.note_checked();
  made.cleared_after = cleared(plan);
  for (size_t i = part.begin; i < part.end; ++i)
    made.has_seeds = made.has_seeds || is_device_seed(actions_[i]);
  made.loss_scale = plan.loss_scale;
  made.generation = backend.generation();
  made.derived = log.derived();
  std::map<const Memory*, int> buffers;
  for (size_t b = 0; b < plan.program->buffers.size(); ++b)
    buffers[memory_of(*plan.program, static_cast<int>(b)).get()] = static_cast<int>(b);
  for (const AccessLog::Entry& entry : log.entries()) {
    const auto found = buffers.find(entry.place);
    made.uses.push_back({entry, found != buffers.end() ? found->second : -1});
  }
  return made;
}

bool RecordedPass::is_valid(const Plan& plan, const Record& record) const {
  if (record.generation != plan.context->backend().generation() ||
      (record.has_seeds && record.loss_scale != plan.loss_scale) ||
      record.cleared_before != cleared(plan) || is_stale(record))
    return false;
  for (const Use& use : record.uses) {
    const std::shared_ptr<Memory> memory =
        use.buffer >= 0 ? memory_of(*plan.program, use.buffer) : use.entry.memory.lock();
    if (memory == nullptr || memory->on_device() != use.entry.contents) return false;
  }
  return true;
}

bool RecordedPass::is_stale(const Record& record) {
  return !std::ranges::all_of(record.derived, [](const AccessLog::Derived& form) {
    const std::shared_ptr<Memory> memory = form.memory.lock();
    return memory != nullptr && memory->version() == form.version;
  });
}

void RecordedPass::launch(Plan& plan, Part& part, Record& record,
                          const std::function<void(size_t)>& run) const {
  for (size_t i = part.begin; i < part.end; ++i) {
    if (is_host_seed(actions_[i])) run(i);
  }
  DeviceBackend& backend = plan.context->backend();
  for (const Use& use : record.uses) {
    const std::shared_ptr<Memory> memory =
        use.buffer >= 0 ? memory_of(*plan.program, use.buffer) : use.entry.memory.lock();
    memory->access(use.entry.first, &backend);
    if (use.entry.writes && use.entry.first == Access::read)
      memory->access(Access::change, &backend);
  }
  backend.launch(*record.graph);
  ++part.launches;
  if (record.checks) plan.context->device_run().note_checked();
  set_cleared(plan, record.cleared_after);
}

void note_unrecorded(Plan& plan, const Program& program) {
  if (!plan.context->on_gpu() || !plan.options.graphs) return;
  std::vector<std::string> names;
  size_t layers = 0;
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    if (node.layer->is_source() || node.is_conversion()) continue;
    ++layers;
    if (!kernel_allows(plan, program, id))
      names.push_back(text("'", node.layer->name(), "' (", node.layer->type(), ")"));
  }
  if (names.empty()) return;
  plan.note(text("CUDA graphs leave out ", names.size(), " of ", layers,
                 " layers, which run on the CPU, follow values, add noise or have kernels that "
                 "cannot be recorded: ",
                 joined(names, ", ")));
}

}  // namespace crema
