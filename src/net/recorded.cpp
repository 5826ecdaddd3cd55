#include "net/recorded.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "core/device_run.hpp"
#include "core/memory_places.hpp"
#include "net/plan.hpp"
#include "net/queued.hpp"

namespace crema {
namespace {

/// More records that are given up unused, and a part runs plainly: what it needs changes all the
/// time.
constexpr int kMostUnused = 24;
/// Those that are kept: for cleared gradients and for others, with some that will be of use again.
constexpr size_t kMostKept = 4;
/// An action that failed so often to be recorded is refused. What fails once may be over then:
/// contents that the host has written since the last pass.
constexpr int kMostFailures = 3;
/// Passes in a row in which values that an action keeps in another form have changed: more, and it
/// is refused.
constexpr int kMostOutdated = 8;
constexpr size_t kFewestActions = 2;

bool may_record(const Plan& plan) {
  return plan.context->on_gpu() && plan.options.graphs && !plan.debug_info && !plan.logs_passes &&
         !plan.on_gradient;
}

bool has_late_shapes(const ProgramNode& node) {
  return node.follows_values || node.layer->top_shapes() == TopShapes::from_values;
}

/// Why no record may have the node; null: it may.
const char* reason_against(const Plan& plan, const Program& program, NodeId id) {
  const ProgramNode& node = program[id];
  if (falls_back_to_cpu(plan, node)) return "run on the CPU";
  if (has_late_shapes(node)) return "have shapes that follow from values";
  if (plan.noise.count(id) != 0) return "add noise to parameters";
  if (node.kernel == nullptr || !node.kernel->capturable())
    return "have kernels that wait for the device or take numbers of the host";
  return nullptr;
}

bool kernel_allows(const Plan& plan, const Program& program, NodeId id) {
  return !program[id].layer->is_source() && reason_against(plan, program, id) == nullptr;
}

bool is_forward(const Action& action) {
  return action.kind == Action::Kind::forward && !action.again;
}

/// Backward, or what is computed again in it.
bool goes_back(const Action& action) {
  return action.kind == Action::Kind::backward ||
         (action.kind == Action::Kind::forward && action.again);
}

/// Whether a loss of several values has another number of them in each pass.
bool has_late_losses(const Program& program) {
  return std::ranges::any_of(program.order, [&](NodeId id) {
    const ProgramNode& node = program[id];
    return has_late_shapes(node) && std::ranges::any_of(node.makes, [&](ValueId top) {
             return program[top].loss_weight != 0 && program[top].planned.count() > 1;
           });
  });
}

/// A record has numbers of elements in it.
bool allows(const Plan& plan, const Action& action) {
  const Program& program = *plan.program;
  switch (action.kind) {
    case Action::Kind::forward:
    case Action::Kind::backward:
      return kernel_allows(plan, program, action.node);
    case Action::Kind::seed:
      return !is_host_seed(plan, action) && !has_late_shapes(program[action.node]);
    case Action::Kind::sum:
      return !has_late_shapes(program[action.node]);
    case Action::Kind::losses:
      return !has_late_losses(program);
    case Action::Kind::complete:
    case Action::Kind::update:
      return true;
  }
  return false;
}

std::vector<Parameter*> parameters_of(const Plan& plan) {
  std::vector<Parameter*> all;
  for (Layer* layer : plan.layers) {
    for (const auto& parameter : layer->params()) all.push_back(parameter.get());
  }
  return all;
}

bool is_current(const AccessLog::Derived& form) {
  const std::shared_ptr<Memory> memory = form.memory.lock();
  return memory != nullptr && memory->version() == form.version;
}

/// An action, for messages.
std::string name_of(const Plan& plan, const Action& action) {
  if (action.kind == Action::Kind::update) return "the update of the parameters";
  if (action.kind == Action::Kind::losses) return "the sum of the losses";
  return text("a step of layer '", (*plan.program)[action.node].layer->name(), "'");
}

void bring_up_to_date(const std::vector<AccessLog::Followed>& followers) {
  for (const AccessLog::Followed& followed : followers) {
    if (const auto follower = followed.follower.lock()) follower->follow();
  }
}

void note_written(const std::vector<AccessLog::Followed>& followers) {
  for (const AccessLog::Followed& followed : followers) {
    const auto follower = followed.writes ? followed.follower.lock() : nullptr;
    if (follower != nullptr) follower->note_written();
  }
}

const Tensor& tensor_in(const Program& program, int buffer) {
  return *program.buffers[static_cast<size_t>(buffer)].tensors.front().tensor;
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

std::vector<bool> RecordedPass::cleared() const {
  std::vector<bool> all;
  all.reserve(parameters_.size());
  for (const Parameter* parameter : parameters_) all.push_back(parameter->is_cleared());
  return all;
}

bool RecordedPass::are_cleared(const std::vector<bool>& wanted) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i]->is_cleared() != wanted[i]) return false;
  }
  return true;
}

void RecordedPass::set_cleared(const std::vector<bool>& wanted) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i]->is_cleared() == wanted[i]) continue;
    if (wanted[i]) {
      parameters_[i]->clear_gradient();
    } else {
      parameters_[i]->begin_gradient();
    }
  }
}

void RecordedPass::split(const Plan& plan) {
  parameters_ = parameters_of(plan);
  std::vector<Part> parts;
  std::set<NodeId> forward = nodes_.all;  // of which a record may be there
  for (size_t i = 0; i < actions_.size(); ++i) {
    const Action& action = actions_[i];
    const auto failed = failures_.find(i);
    bool recordable =
        (failed == failures_.end() || failed->second < kMostFailures) && allows(plan, action);
    if (recordable && is_forward(action)) forward.insert(action.node);
    if (goes_back(action)) recordable = recordable && forward.count(action.node) != 0;
    if (parts.empty() || parts.back().recordable != recordable)
      parts.push_back({.begin = i, .end = i, .recordable = recordable});
    ++parts.back().end;
  }
  for (Part& part : parts) {
    part.recordable = part.recordable && part.end - part.begin >= kFewestActions;
    for (Part& known : parts_) {
      // All parts have run as often.
      if (part.plain.size() < known.plain.size()) part.plain = known.plain;
      for (const Form& form : known.forms) {
        if (form.action >= part.begin && form.action < part.end) part.forms.push_back(form);
      }
      if (!part.recordable || known.begin != part.begin || known.end != part.end) continue;
      part.unused = known.unused;
      part.met = std::move(known.met);
      part.followers = std::move(known.followers);
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

void RecordedPass::run_plainly(Part& part, const std::function<void(size_t)>& run) const {
  const std::vector<bool> before = cleared();
  for (size_t i = part.begin; i < part.end; ++i) run(i);
  if (std::ranges::find(part.plain, before) == part.plain.end()) {
    if (part.plain.size() == kMostKept) part.plain.erase(part.plain.begin());
    part.plain.push_back(before);
  }
  std::erase_if(part.forms, [](const Form& form) { return form.of.memory.expired(); });
  for (Form& form : part.forms) form.of.version = form.of.memory.lock()->version();
}

bool RecordedPass::is_prepared(Plan& plan, Part& part) {
  if (std::ranges::find(part.plain, cleared()) == part.plain.end()) return false;
  std::set<size_t> outdated;
  for (const Form& form : part.forms) {
    if (!is_current(form.of)) outdated.insert(form.action);
  }
  for (const size_t action : outdated) {
    if (++outdated_[action] < kMostOutdated) continue;
    failures_[action] = kMostFailures;
    tell_refused(action);
    plan.note(text("CUDA graphs leave out ", name_of(plan, actions_[action]),
                   ", which keeps a form of values that change in each pass"));
  }
  return outdated.empty();
}

bool RecordedPass::follows_records(const Part& part) const {
  std::set<NodeId> own;
  for (size_t i = part.begin; i < part.end; ++i) {
    const Action& action = actions_[i];
    if (is_forward(action)) own.insert(action.node);
    if (goes_back(action) && nodes_.all.count(action.node) == 0 && own.count(action.node) == 0)
      return false;
  }
  return true;
}

void RecordedPass::count_unused(Plan& plan, Part& part) const {
  if (++part.unused != kMostUnused) return;
  plan.note(text("CUDA graphs leave out ", part.end - part.begin, " steps from ",
                 name_of(plan, actions_[part.begin]), " on: what they need changes too often"));
}

void RecordedPass::count_failure(Plan& plan, const Part& part, size_t at, const std::string& why) {
  bool refuses = false;
  const size_t begin = at < part.end ? at : part.begin;
  for (size_t i = begin; i < std::min(at + 1, part.end); ++i) {
    if (++failures_[i] < kMostFailures) continue;
    refuses = true;
    tell_refused(i);
  }
  if (!refuses) return;
  plan.note(text("CUDA graphs leave out ", at < part.end ? "" : "the steps up to ",
                 name_of(plan, actions_[std::min(at, part.end - 1)]),
                 ", which cannot be recorded: ", why));
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
  if (!part.recordable || part.unused >= kMostUnused) return run_plainly(part, run);
  const auto usable =
      std::ranges::find_if(part.records, [&](Record& r) { return is_valid(plan, r); });
  if (usable != part.records.end()) {
    usable->used = true;
    std::erase_if(outdated_, [&](const auto& action) {
      return action.first >= part.begin && action.first < part.end;
    });
    return launch(plan, *usable);
  }
  if (!is_prepared(plan, part) || !follows_records(part)) return run_plainly(part, run);
  if (part.records.size() == kMostKept) {
    if (!part.records.front().used) count_unused(plan, part);
    part.records.erase(part.records.begin());
  }
  const std::vector<bool> before = cleared();
  size_t at = part.begin;
  try {
    Record made = record(plan, part, run, at);
    part.records.push_back(std::move(made));
  } catch (const StaleRecord&) {
    count_unused(plan, part);
    set_cleared(before);
    return run_plainly(part, run);
  } catch (const Error& error) {
    // Whether that is an Error of the layer itself shows when it runs plainly.
    set_cleared(before);
    const std::string why = error.what();
    run_plainly(part, run);
    return count_failure(plan, part, at, why);
  }
  tell_recorded(part);
  const Record& made = part.records.back();
  bring_up_to_date(made.followers);
  plan.context->backend().launch(*made.graph);
  note_written(made.followers);
}

RecordedPass::Record RecordedPass::record(Plan& plan, Part& part,
                                          const std::function<void(size_t)>& run, size_t& at) {
  DeviceBackend& backend = plan.context->backend();
  DeviceRun& device_run = plan.context->device_run();
  const bool checked = device_run.take_checked();
  Record made;
  made.cleared_before = cleared();
  // What the host had written since the last pass, which stopped an earlier record.
  for (const Use& use : std::exchange(part.met, {})) {
    const std::shared_ptr<Memory> memory = use.entry.memory.lock();
    if (memory != nullptr && use.entry.first != Access::overwrite)
      memory->access(Access::read, &backend);
  }
  bring_up_to_date(std::exchange(part.followers, {}));
  AccessLog log;
  size_t noted = 0;
  const auto take_forms = [&] {
    for (; noted < log.derived().size(); ++noted) add_form(part, log.derived()[noted], at);
  };
  try {
    Recording recording(backend, log);
    for (at = part.begin; at < part.end; ++at) {
      run(at);
      take_forms();
    }
    made.graph = recording.end();
  } catch (...) {
    take_forms();
    for (const AccessLog::Entry& entry : log.entries()) part.met.push_back({entry});
    part.followers = log.followers();
    if (checked) device_run.note_checked();
    throw;
  }
  made.checks = device_run.take_checked();
  if (checked || made.checks) device_run.note_checked();
  made.cleared_after = cleared();
  made.generation = backend.generation();
  made.derived = log.derived();
  made.followers = log.followers();
  // A caller may bind several inputs to parts of one memory.
  std::multimap<const Memory*, int> buffers;
  for (size_t b = 0; b < plan.program->buffers.size(); ++b) {
    const auto buffer = static_cast<int>(b);
    buffers.emplace(tensor_in(*plan.program, buffer).memory().get(), buffer);
  }
  for (const AccessLog::Entry& entry : log.entries()) {
    const auto [first, last] = buffers.equal_range(entry.place);
    if (first == last) made.uses.push_back({entry});
    for (auto found = first; found != last; ++found) {
      const size_t offset = tensor_in(*plan.program, found->second).offset();
      made.uses.push_back({entry, found->second, offset});
    }
  }
  return made;
}

void RecordedPass::add_form(Part& part, const AccessLog::Derived& form, size_t action) {
  const std::shared_ptr<Memory> memory = form.memory.lock();
  for (Form& known : part.forms) {
    if (known.action != action || known.of.memory.lock() != memory) continue;
    known.of.version = form.version;
    return;
  }
  part.forms.push_back({form, action});
}

bool RecordedPass::knows_memories(const Plan& plan, const Record& record) const {
  if (record.places != memory_places() || record.memories.size() != record.uses.size())
    return false;
  for (size_t i = 0; i < record.uses.size(); ++i) {
    const Use& use = record.uses[i];
    if (use.buffer < 0) continue;
    const Tensor& tensor = tensor_in(*plan.program, use.buffer);
    if (tensor.memory().get() != record.memories[i] || tensor.offset() != use.offset) return false;
  }
  return true;
}

bool RecordedPass::find_memories(const Plan& plan, Record& record) const {
  const uint64_t places = memory_places();
  record.memories.clear();
  for (const Use& use : record.uses) {
    const Tensor* const tensor = use.buffer >= 0 ? &tensor_in(*plan.program, use.buffer) : nullptr;
    const std::shared_ptr<Memory> memory =
        tensor != nullptr ? tensor->memory() : use.entry.memory.lock();
    if (memory == nullptr || memory->on_device() != use.entry.contents) return false;
    if (tensor != nullptr && tensor->offset() != use.offset) return false;
    record.memories.push_back(memory.get());
  }
  record.places = places;
  return true;
}

bool RecordedPass::is_valid(const Plan& plan, Record& record) const {
  return record.generation == plan.context->backend().generation() &&
         are_cleared(record.cleared_before) &&
         (knows_memories(plan, record) || find_memories(plan, record)) &&
         std::ranges::all_of(record.derived, is_current);
}

void RecordedPass::launch(Plan& plan, Record& record) const {
  // Before the accesses below, which make another version of what the record writes.
  bring_up_to_date(record.followers);
  DeviceBackend& backend = plan.context->backend();
  for (size_t i = 0; i < record.uses.size(); ++i) {
    const AccessLog::Entry& entry = record.uses[i].entry;
    record.memories[i]->access(entry.first, &backend);
    if (entry.writes && entry.first == Access::read)
      record.memories[i]->access(Access::change, &backend);
  }
  backend.launch(*record.graph);
  note_written(record.followers);
  if (record.checks) plan.context->device_run().note_checked();
  set_cleared(record.cleared_after);
}

void note_unrecorded(Plan& plan, const Program& program) {
  if (!plan.context->on_gpu() || !plan.options.graphs) return;
  std::map<std::string, std::vector<std::string>> names;  // by the reason
  size_t layers = 0, left_out = 0;
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    if (node.layer->is_source() || node.is_conversion()) continue;
    ++layers;
    const char* const why = reason_against(plan, program, id);
    if (why == nullptr) continue;
    ++left_out;
    names[why].push_back(text("'", node.layer->name(), "' (", node.layer->type(), ")"));
  }
  if (left_out == 0) return;
  std::vector<std::string> reasons;
  for (const auto& [why, which] : names) reasons.push_back(text(joined(which, ", "), " ", why));
  plan.note(
      text("CUDA graphs leave out ", left_out, " of ", layers, " layers: ", joined(reasons, "; ")));
}

}  // namespace crema
