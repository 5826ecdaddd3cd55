#include "net/recorded.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "core/device_run.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// More records that are given up unused, and a part runs plainly: what it needs changes all the
/// time.
constexpr int kMostUnused = 24;
/// Those that are kept: for cleared gradients and for others, in two scales of the loss.
constexpr size_t kMostKept = 4;
/// An action that failed so often to be recorded is refused. What fails once may be over then:
/// contents that the host has written since the last pass.
constexpr int kMostFailures = 3;
constexpr size_t kFewestActions = 2;

bool may_record(const Plan& plan) {
  return plan.context->on_gpu() && plan.options.graphs && !plan.debug_info && !plan.logs_passes &&
         !plan.on_gradient;
}

/// A seed that the layer reads on the host.
bool is_host_seed(const Action& action) {
  return action.kind == Action::Kind::seed && action.weight != 0 && action.into->count() <= 1;
}

bool kernel_allows(const Plan& plan, const Program& program, NodeId id) {
  const ProgramNode& node = program[id];
  return node.kernel != nullptr && node.kernel->capturable() && !node.follows_values &&
         node.layer->top_shapes() != TopShapes::from_values && !node.layer->is_source() &&
         !falls_back_to_cpu(plan, node) && plan.noise.count(id) == 0;
}

bool is_forward(const Action& action) {
  return action.kind == Action::Kind::forward && !action.again;
}

bool allows(const Plan& plan, const RecordedNodes& nodes, const Action& action) {
  const bool computes =
      action.kind == Action::Kind::forward || action.kind == Action::Kind::backward;
  if (!computes) return true;
  return kernel_allows(plan, *plan.program, action.node) &&
         (is_forward(action) || nodes.all.count(action.node) != 0);
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

/// Adds those of `more` that are not there, or takes their versions.
void merge_forms(std::vector<AccessLog::Derived>& forms,
                 const std::vector<AccessLog::Derived>& more) {
  for (const AccessLog::Derived& form : more) {
    const std::shared_ptr<Memory> memory = form.memory.lock();
    const auto known = std::ranges::find_if(
        forms, [&](const AccessLog::Derived& other) { return other.memory.lock() == memory; });
    if (known != forms.end()) {
      known->version = form.version;
    } else {
      forms.push_back(form);
    }
  }
}

bool is_current(const AccessLog::Derived& form) {
  const std::shared_ptr<Memory> memory = form.memory.lock();
  return memory != nullptr && memory->version() == form.version;
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
    const auto failed = failures_.find(i);
    const bool recordable = (failed == failures_.end() || failed->second < kMostFailures) &&
                            allows(plan, nodes_, actions_[i]);
    if (parts.empty() || parts.back().recordable != recordable)
      parts.push_back({.begin = i, .end = i, .recordable = recordable});
    ++parts.back().end;
  }
  for (Part& part : parts) {
    part.recordable = part.recordable && part.end - part.begin >= kFewestActions;
    for (Part& known : parts_) {
      // All parts have run as often.
      if (part.plain.size() < known.plain.size()) part.plain = known.plain;
      merge_forms(part.forms, known.forms);
      if (!part.recordable || known.begin != part.begin || known.end != part.end) continue;
      part.unused = known.unused;
      part.met = std::move(known.met);
      part.records = std::move(known.records);
    }
  }
  parts_ = std::move(parts);
  split_again_ = false;
  split_at_ = nodes_.changes;
}

void RecordedPass::run(Plan& plan, const std::function<void(size_t)>& run) {
  if (!may_record(plan)) {
    for (size_t i = 0; i < actions_.size(); ++i) run(i);
    return;
  }
  if (split_again_ || split_at_ != nodes_.changes) split(plan);
  for (Part& part : parts_) run_part(plan, part, run);
}

void RecordedPass::run_plainly(Plan& plan, Part& part,
                               const std::function<void(size_t)>& run) const {
  const std::vector<bool> before = cleared(plan);
  for (size_t i = part.begin; i < part.end; ++i) run(i);
  if (std::ranges::find(part.plain, before) == part.plain.end()) {
    if (part.plain.size() == kMostKept) part.plain.erase(part.plain.begin());
    part.plain.push_back(before);
  }
  std::erase_if(part.forms, [](const AccessLog::Derived& form) { return form.memory.expired(); });
  for (AccessLog::Derived& form : part.forms) form.version = form.memory.lock()->version();
}

bool RecordedPass::is_prepared(const Plan& plan, const Part& part) const {
  return std::ranges::find(part.plain, cleared(plan)) != part.plain.end() &&
         std::ranges::all_of(part.forms, is_current);
}

void RecordedPass::drop(Plan& plan, Part& part, size_t record) const {
  const auto at = part.records.begin() + static_cast<std::ptrdiff_t>(record);
  if (!at->used) count_unused(plan, part);
  part.records.erase(at);
}

void RecordedPass::count_unused(Plan& plan, Part& part) const {
  if (++part.unused == kMostUnused) {
    plan.note(text("CUDA graphs leave out ", part.end - part.begin, " steps from layer '",
                   (*plan.program)[actions_[part.begin].node].layer->name(),
                   "' on: what they need changes too often"));
  }
}

bool RecordedPass::count_failure(const Part& part, size_t at) {
  bool refuses = false;
  const size_t begin = at < part.end ? at : part.begin;
  for (size_t i = begin; i < std::min(at + 1, part.end); ++i) {
    if (++failures_[i] < kMostFailures) continue;
    refuses = true;
    tell_refused(i);
  }
  return refuses;
}

void RecordedPass::tell_recorded(const Part& part) {
  for (size_t i = part.begin; i < part.end; ++i) {
    if (is_forward(actions_[i]) && nodes_.all.insert(actions_[i].node).second) ++nodes_.changes;
  }
}

void RecordedPass::tell_refused(size_t action) {
  split_again_ = true;
  if (is_forward(actions_[action]) && nodes_.all.erase(actions_[action].node) != 0)
    ++nodes_.changes;
}

void RecordedPass::run_part(Plan& plan, Part& part, const std::function<void(size_t)>& run) {
  if (!part.recordable || part.unused >= kMostUnused) return run_plainly(plan, part, run);
  const auto usable =
      std::ranges::find_if(part.records, [&](const Record& r) { return is_valid(plan, r); });
  if (usable != part.records.end()) {
    usable->used = true;
    return launch(plan, part, *usable, run);
  }
  if (!is_prepared(plan, part)) return run_plainly(plan, part, run);
  // Those whose memory is gone are of no use any more.
  if (part.records.size() == kMostKept) drop(plan, part, 0);
  const std::vector<bool> before = cleared(plan);
  size_t at = part.begin;
  try {
    Record made = record(plan, part, run, at);
    part.records.push_back(std::move(made));
  } catch (const StaleRecord&) {
    count_unused(plan, part);
    set_cleared(plan, before);
    return run_plainly(plan, part, run);
  } catch (const Error& error) {
    // Whether that is an Error of the layer itself shows when it runs plainly.
    set_cleared(plan, before);
    const bool refuses = count_failure(part, at);
    const ProgramNode& node = (*plan.program)[actions_[std::min(at, part.end - 1)].node];
    const std::string why = error.what();
    run_plainly(plan, part, run);
    if (refuses && node.layer != nullptr) {
      plan.note(text("CUDA graphs leave out ",
                     at < part.end ? "a step" : text("the steps up to one"), " of layer '",
                     node.layer->name(), "', which cannot be recorded: ", why));
    }
    return;
  }
  tell_recorded(part);
  plan.context->backend().launch(*part.records.back().graph);
}

RecordedPass::Record RecordedPass::record(Plan& plan, Part& part,
                                          const std::function<void(size_t)>& run, size_t& at) {
  DeviceBackend& backend = plan.context->backend();
  DeviceRun& device_run = plan.context->device_run();
  const bool checked = device_run.take_checked();
  Record made;
  made.cleared_before = cleared(plan);
  // What the host had written since the last pass, which stopped an earlier record.
  for (const Use& use : std::exchange(part.met, {})) {
    const std::shared_ptr<Memory> memory = use.entry.memory.lock();
    if (memory != nullptr && use.entry.first != Access::overwrite)
      memory->access(Access::read, &backend);
  }
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
    for (const AccessLog::Entry& entry : log.entries()) part.met.push_back({entry});
    merge_forms(part.forms, log.derived());
    if (checked) device_run.note_checked();
    throw;
  }
  merge_forms(part.forms, log.derived());
  made.checks = device_run.take_checked();
  if (checked || made.checks) device_run.note_checked();
  made.cleared_after = cleared(plan);
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
      record.loss_scale != plan.loss_scale || record.cleared_before != cleared(plan))
    return false;
  for (const Use& use : record.uses) {
    const std::shared_ptr<Memory> memory =
        use.buffer >= 0 ? memory_of(*plan.program, use.buffer) : use.entry.memory.lock();
    if (memory == nullptr || memory->on_device() != use.entry.contents) return false;
  }
  return std::ranges::all_of(record.derived, is_current);
}

void RecordedPass::launch(Plan& plan, const Part& part, Record& record,
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
