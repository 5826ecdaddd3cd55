// Net: runs the passes that build a net, and the actions of its program.
#include "crema/net.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "core/parallel.hpp"
#include "core/spans.hpp"
#include "model/partial_copy.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/batches.hpp"
#include "net/out_of_memory.hpp"
#include "net/plan.hpp"
#include "net/queued.hpp"
#include "net/recorded.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

bool trains(const NetOptions& options) {
  if (options.backward == NetOptions::Backward::by_phase) return options.phase == Phase::train;
  return options.backward == NetOptions::Backward::yes;
}

/// A copy of the message without the weights of its layers, which may be most of its bytes.
NetParameter without_weights(const NetParameter& given) {
  NetParameter net;
  copy_without(given, {NetParameter::kLayerFieldNumber}, net);
  for (const LayerParameter& layer : given.layer()) {
    copy_without(layer, {LayerParameter::kBlobsFieldNumber}, *net.add_layer());
  }
  return net;
}

DType activations_of(const NetParameter& net, const NetOptions& options) {
  const auto by_net = [&] {
    if (options.dtype != DType::f32 || net.precision() == NetParameter::F32) return options.dtype;
    return net.precision() == NetParameter::BF16 ? DType::bf16 : DType::f16;
  };
  const DType type = options.activations ? *options.activations : by_net();
  const bool is_short = type == DType::bf16 || type == DType::f16;
  if (type != options.dtype && !(is_short && options.dtype == DType::f32))
    throw Error("a net of ", to_string(options.dtype), " cannot have activations of ",
                to_string(type), "; use bf16 or f16 with f32, or the same type");
  return type;
}

Arithmetic arithmetic_of(const NetParameter& net, const NetOptions& options) {
  constexpr int kBitsOfMiB = 20;
  constexpr size_t kShareOfBudget = 8;
  Arithmetic arithmetic;
  arithmetic.math =
      options.math.value_or(net.math() == NetParameter::STRICT ? Math::strict : Math::tf32);
  arithmetic.deterministic = options.deterministic.value_or(net.deterministic());
  arithmetic.workspace_limit = size_t{net.workspace_limit()} << kBitsOfMiB;
  if (options.memory_budget > 0) {
    arithmetic.workspace_limit =
        std::min(arithmetic.workspace_limit, options.memory_budget / kShareOfBudget);
  }
  return arithmetic;
}

std::unique_ptr<Plan> build(const NetParameter& given, const SourceMap& source, Context& context,
                            const NetOptions& options) {
  const Span of_net(SpanKind::build, [] { return "net"; });
  auto plan = std::make_unique<Plan>();
  plan->context = &context;
  plan->options = options;
  plan->trains = trains(options);
  plan->debug_info = given.debug_info();
  plan->activations = activations_of(given, options);
  plan->arithmetic = arithmetic_of(given, options);
  plan->run = options.run;
  if (plan->run == nullptr) {
    plan->own_run = std::make_unique<RunState>(RunState{.seed = context.seed()});
    plan->run = plan->own_run.get();
  }

  check_has_layers(given, source);
  // The weights in old layers go along with them, so that `modern` has both.
  std::optional<NetParameter> upgraded;
  NetUpgrade upgrade;
  if (given.layers_size() > 0) upgrade = upgrade_net(upgraded.emplace(given), source);
  const NetParameter& modern = upgraded ? *upgraded : given;
  NetParameter net = without_weights(modern);
  if (!upgraded) upgrade = upgrade_net(net, source);
  note_upgrade(*plan, upgrade, source);
  const auto& classes = given.origin().class_name();
  plan->trained_classes = {.names = {classes.begin(), classes.end()}, .from = "the weights"};

  const ThreadScope threads(context.threads());
  std::vector<Position>& positions = upgrade.positions;
  filter_net(*plan, net, positions);
  freeze_layers(*plan, net);
  note_ignored_fields(*plan, net);

  const auto graph = std::make_shared<Graph>();
  plan->graph = graph;
  build_graph(*plan, *graph, net, positions);
  check_detections(*plan);
  {
    const Span of_weights(SpanKind::build, [] { return "weights"; });
    place_params(*plan, modern);
  }
  resolve_gradients(*plan, *graph);
  fuse_layers(*plan, *graph);
  require(*plan);
  plan->connect_blobs();
  add_noise(*plan);
  {
    const Span of_plan(SpanKind::build, [] { return "plan"; });
    take_program(*plan);
  }
  for (const auto& stored : plan->unchecked) stored->check();
  plan->unchecked.clear();
  return plan;
}

/// Error unless the program was made for the present shapes of the inputs.
void check_current(const Plan& plan, const char* what) {
  if (plan.current()) return;
  throw Error(what, " needs a forward pass before it: the inputs of net '", plan.graph->name,
              "' changed their shapes since the last one");
}

/// Error unless the net has a backward pass, and a forward pass has completed with the present
/// program.
void check_ran(const Plan& plan, const char* what) {
  if (!plan.trains) {
    throw Error("net '", plan.graph->name,
                "' was built without backward; build it with phase train, or "
                "NetOptions::Backward::yes");
  }
  check_current(plan, what);
  const bool all_ran = !plan.has_run.empty() && std::ranges::all_of(plan.has_run, std::identity());
  if (plan.ran() || all_ran) return;
  throw Error(what, " needs a forward pass before it: net '", plan.graph->name,
              "' has not run to its end in its present shapes, or backward ran already");
}

/// Error unless the program has a step of that index; returns the index.
size_t checked_step(const Plan& plan, size_t step) {
  const size_t count = plan.program ? plan.program->order.size() : 0;
  if (step >= count) {
    throw Error("there is no step ", step, ", net '", plan.graph->name, "' has ", count,
                " at present");
  }
  return step;
}

Blob& input_of(const Plan& plan, const std::string& name) {
  const Graph& graph = *plan.graph;
  const auto found = std::ranges::find(graph.input_names, name);
  if (found == graph.input_names.end()) {
    throw Error("net '", plan.graph->name, "' has no input '", name, "'",
                did_you_mean(name, graph.input_names));
  }
  return plan.blob(graph.inputs[static_cast<size_t>(found - graph.input_names.begin())]);
}

/// Calls fetch of the sources among the layers from index `first` to `last`.
void fetch(const Plan& plan, size_t first, size_t last) {
  for (const NodeId id : plan.graph->node_ids()) {
    Layer& layer = plan.layer(id);
    if (layer.top_shapes() != TopShapes::per_batch) continue;
    if (id.index() < first || id.index() > last) continue;
    in_node(plan.node(id), [&] { layer.fetch(plan.tops[id]); });
  }
}

/// Sets the tops of TopShapes::from_values back to their bounds.
void restore_bounds(Plan& plan) {
  const Program& program = *plan.program;
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    if (node.layer->top_shapes() != TopShapes::from_values) continue;
    for (const ValueId top : node.makes) program[top].blob->reshape(program[top].planned);
  }
}

/// Error if backward leaves out a step that computes dropped tops again, before it runs `step`.
void check_dropped(const Plan& plan, size_t step) {
  const Program& program = *plan.program;
  const size_t end = plan.back > step ? plan.back : program.order.size();
  for (size_t between = step + 1; between < end; ++between) {
    for (size_t i = program.backward_of[between].first; i < program.backward_of[between].second;
         ++i) {
      if (!program.backward[i].again) continue;
      throw Error("backward leaves out layer '", program[program.order[between]].layer->name(),
                  "', before which dropped values are computed again (recompute, or a memory "
                  "budget); run it from the last layer on, in order");
    }
  }
}

/// The steps of the layers from index `first` to `last` of Net::layers(), in order: of each layer,
/// or of the layer that it was fused into, with the conversions of its bottoms and of its tops.
std::set<size_t> steps_of_layers(const Plan& plan, size_t first, size_t last) {
  for (const size_t layer : {first, last}) {
    if (layer < plan.layers.size()) continue;
    throw Error("there is no layer ", layer, " in net '", plan.graph->name, "', which has ",
                plan.layers.size());
  }
  const Program& program = *plan.program;
  const auto& order = program.order;
  std::set<size_t> steps;
  const auto add = [&](NodeId id) {
    steps.insert(static_cast<size_t>(std::ranges::find(order, id) - order.begin()));
  };
  for (size_t layer = first; layer <= last; ++layer) {
    const NodeId id = program.runs(plan.graph->runs(NodeId(layer)));
    add(id);
    for (const ValueId bottom : program[id].reads) {
      if (program[bottom].is_converted()) add(program[bottom].maker);
    }
    for (const ValueId top : plan.node(id).tops) {
      const NodeId maker = program[top].maker;
      if (program[maker].is_conversion()) add(maker);
    }
  }
  return steps;
}

/// Notes, with keep_all, that a step ran.
void note_run(Plan& plan, size_t step) {
  if (!plan.options.keep_all) return;
  plan.has_run.resize(plan.program->order.size());
  plan.has_run[step] = true;
}

/// As check_ran() for one step: with keep_all, the others need not have run.
void check_step_ran(const Plan& plan, size_t step, const char* what) {
  // Its steps are within the reach of the program.
  if (plan.trains && plan.current(0) && step < plan.has_run.size() && plan.has_run[step]) return;
  check_ran(plan, what);
}

/// Runs one step. A step that throws is not done, nor are those behind it.
void run_step(Plan& plan, size_t step) {
  const size_t done = std::exchange(plan.done, std::min(plan.done, step));
  if (step < plan.has_run.size()) plan.has_run[step] = false;
  const Program& program = *plan.program;
  try {
    run_action(plan, program.forward[step]);
  } catch (...) {
    // Tops of shapes that memory was not planned for may have left it.
    const bool left = std::ranges::any_of(program[program.order[step]].makes, [&](ValueId top) {
      return program[top].blob->shape() != program[top].planned;
    });
    if (left) drop_program(plan);
    throw;
  }
  plan.done = done == step ? step + 1 : done;
  note_run(plan, step);
}

/// The sum of the losses of the steps, each times its weight.
template <class Steps>
double losses_of_steps(const Program& program, const Steps& steps) {
  double loss = 0;
  for (const size_t step : steps) loss += losses_of(program, program[program.order[step]]);
  return loss;
}

/// Runs steps of a forward pass, and throws what checks on the device have found in them: earlier
/// than a later Error on the host.
template <class Steps>
void checked(Net& net, const Steps& steps) {
  try {
    steps();
  } catch (...) {
    check_values(net);
    throw;
  }
  check_values(net);
}

RecordedPass& recorded(Program& program, std::shared_ptr<RecordedPass>& pass,
                       const std::vector<Action>& actions) {
  if (pass == nullptr) pass = std::make_shared<RecordedPass>(actions, program.recorded_nodes);
  return *pass;
}

}  // namespace

void reshape_to(Plan& plan, size_t last) {
  const ThreadScope threads(plan.context->threads());
  if (!plan.current(last + 1)) take_program(plan, last + 1);
}

void begin_pass(Plan& plan) {
  plan.done = plan.back = 0;
  plan.has_run.clear();
  plan.without_keys.clear();
  fetch(plan, 0, plan.layers.size() - 1);
  if (!plan.current()) take_program(plan);
  restore_bounds(plan);
}

void plan_next_batches(Net& net) {
  Plan& plan = Plan::of(net);
  const ThreadScope threads(plan.context->threads());
  leave_program(plan);
  plan.programs.clear();
  fetch(plan, 0, plan.layers.size() - 1);
  take_program(plan);
}

void run_forward_steps(Plan& plan) {
  Program& program = *plan.program;
  const size_t steps = program.order.size();
  if (!plan.context->on_gpu()) {
    for (size_t step = 0; step < steps; ++step) run_step(plan, step);
    return;
  }
  recorded(program, program.recorded_forward, program.forward).run(plan, [&](size_t step) {
    // Steps before it may have run as records.
    plan.done = step;
    run_step(plan, step);
  });
  plan.done = steps;
  for (size_t step = 0; step < steps; ++step) note_run(plan, step);
}

void run_iteration(Plan& plan, const std::function<void()>& losses,
                   const std::function<void()>& update) {
  Program& program = *plan.program;
  const size_t steps = program.order.size();
  std::vector<Action>& all = program.iteration;
  if (all.empty()) {
    all = program.forward;
    all.push_back({.kind = Action::Kind::losses});
    all.insert(all.end(), program.backward.begin(), program.backward.end());
    all.push_back({.kind = Action::Kind::update});
  }
  // Gradients overwrite values of the forward pass.
  const size_t done = plan.options.keep_all ? steps : 0;
  std::optional<Span> pass;
  const auto begin_span = [&](const char* name) {
    if (!pass) pass.emplace(SpanKind::pass, [&] { return name; });
  };
  recorded(program, program.recorded_iteration, all).run(plan, [&](size_t i) {
    if (i < steps) {
      begin_span("forward");
      // Steps before it may have run as records.
      plan.done = i;
      return run_step(plan, i);
    }
    if (all[i].kind == Action::Kind::losses) {
      plan.done = done;
      losses();
      return pass.reset();
    }
    if (all[i].kind == Action::Kind::update) {
      pass.reset();
      const Span span(SpanKind::update, [] { return "update"; });
      return taking_memory(plan, update);
    }
    begin_span("backward");
    run_action(plan, all[i]);
  });
  plan.done = done;
}

Net::Net(const NetParameter& param, Context& context, NetOptions options)
    : Net(param, SourceMap(), context, std::move(options)) {}

Net::Net(const NetParameter& param, const SourceMap& source, Context& context, NetOptions options) {
  try {
    plan_ = build(param, source, context, options);
    plan_->file = source.file();
  } catch (Error& error) {
    error.at({source.file(), 0, 0});
    throw;
  }
}

Net::Net(const std::string& path, Context& context, NetOptions options) {
  SourceMap source;
  NetParameter param;
  std::vector<std::string> notes;
  read_net(path, param, &source, &notes);
  *this = Net(param, source, context, std::move(options));
  for (const std::string& note : notes) plan_->note(note);
}

Net::~Net() = default;
Net::Net(Net&&) noexcept = default;
Net& Net::operator=(Net&&) noexcept = default;

const std::string& Net::name() const { return plan_->graph->name; }
Phase Net::phase() const { return plan_->options.phase; }
Context& Net::context() const { return *plan_->context; }

bool Net::has_blob(const std::string& name) const {
  return plan_->graph->versions.count(name) != 0;
}

std::vector<std::string> Net::blob_names() const {
  std::vector<std::string> names;
  for (const Value& value : plan_->graph->values) {
    if (value.version == 0) names.push_back(value.name);
  }
  return names;
}

std::vector<Blob*> Net::blob_versions(const std::string& name) {
  const auto& versions = plan_->graph->versions;
  const auto found = versions.find(name);
  if (found == versions.end()) {
    throw Error("there is no blob '", name, "' in net '", plan_->graph->name, "'",
                did_you_mean(name, blob_names()));
  }
  std::vector<Blob*> blobs;
  for (const ValueId id : found->second) {
    const bool chained = plan_->program != nullptr && (*plan_->program)[id].fused_away;
    if (!chained && !plan_->value(id).fused_away) blobs.push_back(&plan_->blob(id));
  }
  return blobs;
}

Blob& Net::blob(const std::string& name) {
  blob_versions(name);  // an Error if there is none
  const Graph& graph = *plan_->graph;
  const ValueId id = graph.versions.at(name).back();
  const Value& value = graph[id];
  if (value.fused_away) {
    throw Error("blob '", name, "' was fused into layer '",
                graph[graph.runs(value.producer)].layer->name(),
                "'; name it in NetOptions::keep, or build the net without fusion");
  }
  if (!plan_->shows(value)) {
    throw Error("blob '", name,
                "' is not kept after a pass: it shares its memory with others; name it ",
                "in NetOptions::keep");
  }
  return plan_->blob(id);
}

bool Net::has_diff(const Blob& blob) const {
  if (!plan_->program || !plan_->trains) return false;
  const auto& values = plan_->program->values;
  return std::ranges::any_of(
      values, [&](const ProgramValue& value) { return value.blob == &blob && value.has_gradient; });
}

const std::vector<std::string>& Net::inputs() const { return plan_->graph->input_names; }
const std::vector<std::string>& Net::outputs() const { return plan_->graph->output_names; }

Tensor& Net::input(const std::string& name) { return input_of(*plan_, name).data; }

Tensor Net::output(const std::string& name) {
  const ThreadScope threads(plan_->context->threads());
  return blob(name).data.contiguous();
}

void Net::reshape_input(const std::string& name, const Shape& shape) {
  input_of(*plan_, name).reshape(shape);
}

void Net::reshape() {
  const ThreadScope threads(plan_->context->threads());
  if (!plan_->current()) take_program(*plan_);
}

void Net::replan() {
  const ThreadScope threads(plan_->context->threads());
  leave_program(*plan_);
  plan_->programs.clear();
  take_program(*plan_);
}

RunState& Net::run_state() {
  plan_->advances = false;
  return *plan_->run;
}

double Net::forward() {
  const Span span(SpanKind::pass, [] { return "forward"; });
  Plan& plan = *plan_;
  const ThreadScope threads(plan.context->threads());
  begin_pass(plan);
  if (plan.own_run && std::exchange(plan.advances, true)) ++plan.own_run->iteration;
  tell_pass(plan);
  checked(*this, [&] { run_forward_steps(plan); });
  return losses_of_steps(*plan.program, IdRange<size_t>(plan.program->order.size()));
}

double Net::forward(size_t first, size_t last) {
  Plan& plan = *plan_;
  const ThreadScope threads(plan.context->threads());
  if (first > last) {
    throw Error("forward goes from a layer to a later one, not from ", first, " to ", last);
  }
  fetch(plan, first, last);
  reshape_to(plan, last);
  tell_pass(plan);
  const std::set<size_t> steps = steps_of_layers(plan, first, last);
  checked(*this, [&] {
    for (const size_t step : steps) run_step(plan, step);
  });
  return losses_of_steps(*plan.program, steps);
}

void Net::backward() {
  const Span span(SpanKind::pass, [] { return "backward"; });
  Plan& plan = *plan_;
  check_ran(plan, "backward");
  const ThreadScope threads(plan.context->threads());
  // Another net may have run on the device since; what is computed again draws as before.
  tell_pass(plan);
  // Gradients overwrite values of the forward pass.
  if (!plan.options.keep_all) plan.done = 0;
  Program& program = *plan.program;
  if (plan.context->on_gpu()) {
    recorded(program, program.recorded_backward, program.backward).run(plan, [&](size_t i) {
      run_action(plan, program.backward[i]);
    });
  } else {
    for (const Action& action : program.backward) run_action(plan, action);
  }
  log_all_parameters(plan);
}

void Net::backward(size_t first, size_t last) {
  Plan& plan = *plan_;
  if (first < last) {
    throw Error("backward goes from a layer to an earlier one, not from ", first, " to ", last);
  }
  if (!plan.trains || !plan.current(first + 1)) check_ran(plan, "backward");
  const std::set<size_t> steps = steps_of_layers(plan, last, first);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) backward_step(*step);
}

void Net::set_loss_scale(double scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    throw Error("loss_scale ", scale, " must be positive and finite");
  crema::set_loss_scale(*plan_, scale);
}

double Net::loss_scale() const { return plan_->loss_scale; }

void Net::on_gradient(std::function<void(size_t)> hook) { plan_->on_gradient = std::move(hook); }

void Net::clear_gradients() {
  for (Layer* layer : plan_->layers) {
    for (const auto& parameter : layer->params()) parameter->clear_gradient();
  }
}

Layer& Net::layer(const std::string& name) {
  std::vector<std::string> names;
  for (Layer* layer : layers()) {
    if (layer->name() == name) return *layer;
    names.push_back(layer->name());
  }
  throw Error("there is no layer '", name, "' in net '", plan_->graph->name, "'",
              did_you_mean(name, names));
}

void Net::forward_step(size_t step) {
  const ThreadScope threads(plan_->context->threads());
  if (step == 0 && plan_->program) begin_pass(*plan_);
  check_current(*plan_, "a step");
  tell_pass(*plan_);
  const size_t last = plan_->program->order.size() - 1;
  if (checked_step(*plan_, step) < last) return run_step(*plan_, step);
  checked(*this, [&] { run_step(*plan_, step); });
}

void Net::backward_step(size_t step) {
  check_step_ran(*plan_, step, "a step back");
  const ThreadScope threads(plan_->context->threads());
  const auto [first, last] = plan_->program->backward_of[checked_step(*plan_, step)];
  check_dropped(*plan_, step);
  tell_pass(*plan_);
  plan_->back = step;
  for (size_t i = first; i < last; ++i) run_action(*plan_, plan_->program->backward[i]);
}

Blobs Net::step_tops(size_t step) const {
  return (*plan_->program)[plan_->program->order[checked_step(*plan_, step)]].top_blobs;
}

ParameterArena& Net::params() { return plan_->arena; }
const ParameterArena& Net::params() const { return plan_->arena; }

}  // namespace crema
