#include "net/queued.hpp"

#include <algorithm>

#include "backend/report.hpp"
#include "core/data_source.hpp"
#include "core/device_run.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/spans.hpp"
#include "net/not_finite.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// The node of the present program whose layer found a bad value; null: none.
const ProgramNode* node_of(const Plan& plan, const Layer* layer) {
  if (plan.program == nullptr || layer == nullptr) return nullptr;
  for (const NodeId id : plan.program->order) {
    if ((*plan.program)[id].layer == layer) return &(*plan.program)[id];
  }
  return nullptr;
}

[[noreturn]] void throw_value(const Plan& plan, const DeviceRun& run, const DeviceReport& report) {
  const ProgramNode* const node = node_of(plan, run.layer_of(report));
  if (node == nullptr) run.explain(report);
  in_node(*node, [&] {
    try {
      run.explain(report);
    } catch (Error& error) {
      add_record(plan, *node, error);
      throw;
    }
  });
  throw Error("the value ", report.value, " is refused");  // explain() throws
}

/// Makes the batch that failed the present one again: it is on the device yet.
void take_back(Plan& plan, int later_passes) {
  const Program& program = *plan.program;
  for (size_t i = 0; i < program.shapes.size(); ++i)
    plan.blob(plan.graph->outer[i]).reshape(program.shapes[i]);
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    DataSource* const source = node.layer->data_source();
    if (source == nullptr) continue;
    if (!source->look_back(later_passes)) plan.without_keys.insert(source);
    for (const ValueId top : node.makes) {
      const Tensor& data = program[top].blob->data;
      if (data.has_memory() && data.memory()->is_staged()) data.memory()->trust_device();
    }
  }
}

/// Forgets failures, now and in the end.
class ClearedRun {
 public:
  explicit ClearedRun(DeviceRun& run) : run_(run) { run_.clear(); }
  ~ClearedRun() {
    try {
      run_.clear();
    } catch (...) {  // of a lost device, while the failure is thrown
    }
  }
  ClearedRun(const ClearedRun&) = delete;
  ClearedRun& operator=(const ClearedRun&) = delete;

 private:
  DeviceRun& run_;
};

std::vector<LossTerm> losses_on_device(const Plan& plan) {
  const Program& program = *plan.program;
  DeviceBackend& backend = plan.context->backend();
  std::vector<LossTerm> terms;
  for (const NodeId id : program.order) {
    for (const ValueId top : program[id].makes) {
      const ProgramValue& value = program[top];
      if (value.loss_weight == 0 || value.blob->count() == 0) continue;
      const Tensor& data = value.blob->data;
      terms.push_back({.values = data.read_bytes(&backend),
                       .dtype = data.dtype(),
                       .count = data.storage(),
                       .weight = static_cast<double>(value.loss_weight)});
    }
  }
  return terms;
}

}  // namespace

void tell_pass(const Plan& plan) {
  if (!plan.context->on_gpu()) return;
  plan.context->device_run().begin_pass({plan.run->seed, plan.run->iteration, plan.run->pass});
}

LossScaleState* device_loss_scale(Plan& plan) {
  if (plan.device_scale == nullptr) {
    plan.device_scale = std::make_unique<DeviceLossScale>(plan.context->backend());
    plan.device_scale->set({LossScaler(plan.loss_scale), plan.scale_follows ? 1 : 0});
  }
  return plan.device_scale->state();
}

LossScaleState* device_loss_scale(Net& net) { return device_loss_scale(Plan::of(net)); }

void follow_gradients(Net& net, const LossScaler& scaler) {
  Plan& plan = Plan::of(net);
  plan.loss_scale = scaler.scale();
  plan.scale_follows = true;
  device_loss_scale(plan);
  plan.device_scale->set({scaler, 1});
}

void note_loss_scale(Net& net, double scale) { Plan::of(net).loss_scale = scale; }

void set_loss_scale(Plan& plan, double scale) {
  plan.loss_scale = scale;
  if (plan.device_scale == nullptr) return;
  plan.device_scale->set({LossScaler(scale), plan.scale_follows ? 1 : 0});
}

bool is_host_seed(const Plan& plan, const Action& action) {
  return action.kind == Action::Kind::seed && action.weight != 0 && !plan.scale_follows &&
         falls_back_to_cpu(plan, (*plan.program)[action.node]);
}

void queue_forward(Net& net, bool first_pass) {
  const Span span(SpanKind::pass, [] { return "forward"; });
  Plan& plan = Plan::of(net);
  const ThreadScope threads(plan.context->threads());
  begin_pass(plan);
  tell_pass(plan);
  run_forward_steps(plan);
  DeviceRun& run = plan.context->device_run();
  run.take_checked();
  device_losses(plan.context->backend(), run.block(), losses_on_device(plan), first_pass);
}

void queue_iteration(Net& net, const std::function<void()>& update) {
  Plan& plan = Plan::of(net);
  const ThreadScope threads(plan.context->threads());
  begin_pass(plan);
  tell_pass(plan);
  DeviceRun& run = plan.context->device_run();
  run_iteration(
      plan,
      [&] { device_losses(plan.context->backend(), run.block(), losses_on_device(plan), true); },
      update);
  run.take_checked();
}

void note_update_apart(Net& net, const std::string& why) {
  Plan& plan = Plan::of(net);
  if (!plan.context->on_gpu() || !plan.options.graphs) return;
  plan.note(text("the update of the parameters is no part of CUDA graphs: ", why));
}

void check_values(Net& net) {
  const Plan& plan = Plan::of(net);
  if (!plan.context->on_gpu()) return;
  DeviceRun& run = plan.context->device_run();
  if (!run.take_checked()) return;
  const DeviceReport report = run.report();
  if (report.failure != DeviceFailure::value) return;
  // Of a net that trains on the same device, its solver tells.
  const Layer* const layer = run.layer_of(report);
  const auto is_layer = [&](const Layer* own) { return own == layer; };
  if (layer != nullptr && std::ranges::none_of(plan.layers, is_layer)) return;
  const ClearedRun cleared(run);
  throw_value(plan, run, report);
}

void throw_reported(Net& net, int iteration, const DeviceReport& report, int later_passes) {
  Plan& plan = Plan::of(net);
  DeviceRun& run = plan.context->device_run();
  const ClearedRun cleared(run);
  take_back(plan, later_passes);
  if (report.failure == DeviceFailure::value) throw_value(plan, run, report);
  if (report.failure == DeviceFailure::loss) throw_not_finite(net, iteration, report.pass_loss);
  throw_not_finite_gradient(net, iteration);
}

}  // namespace crema
