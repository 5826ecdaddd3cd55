// Building a net by its passes, running it, and looking at it.
#include "crema/net.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "data/data_source.hpp"
#include "model/partial_copy.hpp"
#include "model/text_format.hpp"
#include "net/accumulate.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// Programs of other shapes that are kept: a detector or a fully convolutional net meets some again
/// and again. Each holds what its engines made.
constexpr size_t kKeptPrograms = 8;

bool trains(const NetOptions& options) {
  if (options.backward == NetOptions::Backward::by_phase) return options.phase == Phase::train;
  return options.backward == NetOptions::Backward::yes;
}

/// The net's message without the weights that its layers carry, which may be most of it.
NetParameter without_weights(const NetParameter& given) {
  NetParameter net;
  copy_without(given, {NetParameter::kLayerFieldNumber}, net);
  for (const LayerParameter& layer : given.layer()) {
    copy_without(layer, {LayerParameter::kBlobsFieldNumber}, *net.add_layer());
  }
  return net;
}

DType activations_of(const NetParameter& net, const NetOptions& options) {
  const bool by_net = net.precision() == NetParameter::BF16 && options.dtype == DType::f32;
  const DType type = options.activations.value_or(by_net ? DType::bf16 : options.dtype);
  require(type == options.dtype || (type == DType::bf16 && options.dtype == DType::f32),
          "a net of ", to_string(options.dtype), " cannot have activations of ", to_string(type),
          "; use bf16 with f32, or the same type");
  return type;
}

std::unique_ptr<Plan> build(const NetParameter& given, const SourceMap& source, Context& context,
                            const NetOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->context = &context;
  plan->options = options;
  plan->trains = trains(options);
  plan->file = source.file();
  plan->activations = activations_of(given, options);
  plan->run = options.run;
  if (plan->run == nullptr) {
    plan->own_run = std::make_unique<RunState>(RunState{.seed = context.seed()});
    plan->run = plan->own_run.get();
  }

  check_has_layers(given, source);
  NetParameter net = without_weights(given);
  const ThreadScope threads(context.threads());
  std::vector<Position> positions;
  upgrade_net(net, source, positions);
  merge_state(net, plan->options);
  note_unknown_stages(*plan, net);
  filter_net(net, plan->options, positions);
  note_ignored_fields(*plan, net);

  build_graph(*plan, net, positions);
  place_params(*plan, given);
  resolve_gradients(*plan);
  fuse_layers(*plan);
  take_program(*plan);
  return plan;
}

/// The same for a net of a text: an Error without a place of its own gets the file.
std::unique_ptr<Plan> build_from(const NetParameter& net, const SourceMap& source, Context& context,
                                 const NetOptions& options) {
  try {
    return build(net, source, context, options);
  } catch (Error& error) {
    error.at({source.file(), 0, 0});
    throw;
  }
}

double weighted_sum(const Value& value) {
  double sum = 0;
  dispatch_float(value.blob.data.dtype(), [&](auto zero) {
    for (const auto x : value.blob.data.values<decltype(zero)>()) sum += static_cast<double>(x);
  });
  return sum * static_cast<double>(value.loss_weight);
}

/// What the source of a node's labels, which are always bottom 1, calls sample `index` of the
/// present batch; "" where none or several are behind them.
std::string record_key(const Plan& plan, const Node& node, int64_t index) {
  if (node.bottoms.size() < 2) return {};
  const int64_t samples = plan.value(node.bottoms[1]).blob.shape().dim_or_1(0);
  std::set<NodeId> met;
  std::vector<ValueId> above = {node.bottoms[1]};
  std::set<const DataSource*> sources;
  while (!above.empty()) {
    const Value& value = plan.value(above.back());
    above.pop_back();
    // A layer that cuts or joins batches numbers samples anew.
    if (value.blob.shape().dim_or_1(0) != samples) return {};
    if (!met.insert(value.producer).second) continue;
    const Node& producer = plan.node(value.producer);
    const auto* source = dynamic_cast<const DataSource*>(producer.layer.get());
    if (source != nullptr) sources.insert(source);
    above.insert(above.end(), producer.bottoms.begin(), producer.bottoms.end());
  }
  return sources.size() == 1 ? (*sources.begin())->record_key(index) : std::string();
}

/// Bottoms whose shapes were not known before the pass: the node follows them.
void follow_shapes(const Plan& plan, Node& node) {
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (node.edges[i]) node.edges[i]->reshape(plan.value(node.reads[i]).blob.shape());
  }
  const auto same = [&] {
    return std::equal(node.bottom_blobs.begin(), node.bottom_blobs.end(), node.prepared_for.begin(),
                      node.prepared_for.end(),
                      [](const Blob* blob, const Shape& shape) { return blob->shape() == shape; });
  };
  if (same()) return;
  node.prepared_for.clear();
  for (const Blob* blob : node.bottom_blobs) node.prepared_for.push_back(blob->shape());
  node.layer->reshape(node.bottom_blobs, node.top_blobs);
  node.layer->prepare(node.option, node.bottom_blobs, node.top_blobs);
}

[[noreturn]] void refuse_shape(const Node& node, const Value& value) {
  const Shape& shape = value.blob.shape();
  if (node.layer->top_shapes() == TopShapes::fixed && !node.follows_values) {
    throw Error("changed the shape of its top '", value.name, "' in forward from ",
                value.planned.str(), " to ", shape.str(),
                ", which only layers whose top_shapes() are from_values may");
  }
  throw Error("made a top '", value.name, "' of ", shape.str(), ", which exceeds its bound ",
              value.planned.str());
}

/// Tops keep the shapes that memory was planned for, or, where they may be smaller, fit in there.
void check_shapes(const Plan& plan, const Node& node) {
  const bool may_shrink =
      node.follows_values || node.layer->top_shapes() == TopShapes::from_values;
  for (size_t t = 0; t < node.makes.size(); ++t) {
    const Value& value = plan.value(node.makes[t]);
    const Blob& blob = *node.top_blobs[t];
    if (blob.shape() == value.planned) continue;
    const bool fits = storage_count(blob.shape(), blob.data.format()) <=
                      storage_count(value.planned, blob.data.format());
    if (!may_shrink || !fits) refuse_shape(node, value);
  }
}

void run_forward(Plan& plan, const Action& action) {
  Node& node = plan.node(action.node);
  in_node(node, [&] {
    if (node.follows_values) follow_shapes(plan, node);
    try {
      node.layer->forward(action.bottoms, action.tops);
    } catch (Error& error) {
      if (error.sample() >= 0) error.in_record(record_key(plan, node, error.sample()));
      throw;
    }
    if (!action.again) check_shapes(plan, node);
  });
}

void seed_top(const Context& context, Value& value) {
  switch (value.seed) {
    case Seed::none:
      break;
    case Seed::zero:
      value.blob.diff.fill(0);
      break;
    case Seed::weight:
      seed(context, value.blob.diff, value.loss_weight, false);
      break;
    case Seed::add_weight:
      seed(context, value.blob.diff, value.loss_weight, true);
      break;
  }
}

/// Says to layers, while it lives, that a forward pass is a repetition.
class RecomputingScope {
 public:
  explicit RecomputingScope(RunState& run) : run_(run) { run_.recomputing = true; }
  ~RecomputingScope() { run_.recomputing = false; }
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;

 private:
  RunState& run_;
};

void run_action(Plan& plan, const Action& action) {
  Node& node = plan.node(action.node);
  switch (action.kind) {
    case Action::Kind::forward: {
      if (!action.again) return run_forward(plan, action);
      const RecomputingScope again(*plan.run);
      return run_forward(plan, action);
    }
    case Action::Kind::seed:
      for (const ValueId top : node.makes) seed_top(*plan.context, plan.value(top));
      return;
    case Action::Kind::backward:
      return in_node(
          node, [&] { node.layer->backward(action.tops, node.propagate, action.bottoms); });
    case Action::Kind::sum:
      return accumulate(*plan.context, action.parts, action.into->diff);
    case Action::Kind::complete:
      if (plan.on_gradient) plan.on_gradient(action.segment);
      return;
  }
}

/// Throws unless the last forward ran with the inputs' shapes of now.
void check_current(const Plan& plan, const char* what) {
  if (plan.current()) return;
  throw Error(what, " needs a forward pass before it: the inputs of net '", plan.name,
              "' changed their shapes since the last one");
}

/// Throws unless there is something to go back over.
void check_ran(const Plan& plan, const char* what) {
  check_current(plan, what);
  if (plan.ran) return;
  throw Error(what, " needs a forward pass before it: net '", plan.name,
              "' has not run to its end in its present shapes");
}

/// Entry `step` of the program's order.
size_t checked_step(const Plan& plan, size_t step) {
  const size_t count = plan.program ? plan.program->order.size() : 0;
  if (step >= count) {
    throw Error("there is no step ", step, ", net '", plan.name, "' has ", count, " at present");
  }
  return step;
}

/// Input `name` as a value; none where there is no such input.
ValueId input_of(const Plan& plan, const std::string& name) {
  const auto found = std::find(plan.input_names.begin(), plan.input_names.end(), name);
  if (found == plan.input_names.end()) return {};
  return plan.inputs[static_cast<size_t>(found - plan.input_names.begin())];
}

/// Sources make their batches ready. One that no forward pass took, for an Error, stays.
void fetch(Plan& plan) {
  if (plan.batches.empty() || plan.fetched) return;
  for (const NodeId id : plan.layer_nodes()) {
    Node& node = plan.node(id);
    if (node.layer->top_shapes() != TopShapes::per_batch) continue;
    std::vector<Blob*> tops;
    for (const ValueId top : node.tops) tops.push_back(&plan.value(top).blob);
    in_node(node, [&] { node.layer->fetch(tops); });
  }
  plan.fetched = true;
}

/// Shapes that forward made smaller become their bounds again.
void restore_bounds(Plan& plan) {
  for (const NodeId id : plan.program->order) {
    const Node& node = plan.node(id);
    if (node.layer->top_shapes() != TopShapes::from_values) continue;
    for (const ValueId top : node.makes) plan.value(top).blob.reshape(plan.value(top).planned);
  }
}

/// Before a pass over all layers: batches, a program for the shapes, numbers of its own.
void begin_pass(Plan& plan) {
  fetch(plan);
  if (!plan.current()) take_program(plan);
  if (plan.own_run && std::exchange(plan.advances, true)) ++plan.own_run->iteration;
  plan.ran = false;
  restore_bounds(plan);
}

/// The steps of entry `layer` of Net::layers(), or of the layer that computes it too: conversions of
/// its bottoms that stand right before it, itself, those of its tops. First and last.
std::pair<size_t, size_t> steps_of_layer(const Plan& plan, size_t layer) {
  if (layer >= plan.layers.size()) {
    throw Error("there is no layer ", layer, " in net '", plan.name, "', which has ",
                plan.layers.size());
  }
  NodeId id(layer);
  while (!plan.node(id).scheduled()) id = plan.node(id).fused_into;
  const auto& order = plan.program->order;
  const auto at =
      static_cast<size_t>(std::find(order.begin(), order.end(), id) - order.begin());
  // What a layer made in another layout becomes a value of the graph right behind it.
  const auto converts = [&](size_t step, bool top) {
    const Node& node = plan.node(order[step]);
    return node.is_conversion && (node.makes[0].index() < plan.value_count) == top;
  };
  size_t first = at, last = at;
  while (first > 0 && converts(first - 1, false)) --first;
  while (last + 1 < order.size() && converts(last + 1, true)) ++last;
  return {first, last};
}

/// Weighted losses that a node made.
double losses_of(const Plan& plan, const Node& node) {
  double loss = 0;
  for (const ValueId top : node.makes) {
    if (plan.value(top).loss_weight != 0) loss += weighted_sum(plan.value(top));
  }
  return loss;
}

double forward_steps(Plan& plan, size_t first, size_t last) {
  double loss = 0;
  for (size_t k = first; k <= last; ++k) {
    run_action(plan, plan.program->forward[plan.program->forward_of[k]]);
    loss += losses_of(plan, plan.node(plan.program->order[k]));
  }
  return loss;
}

/// What other shapes run while this program waits.
void put_aside(Plan& plan) {
  Program& program = *plan.program;
  program.nodes.clear();
  for (const NodeId id : program.order) {
    Node& node = plan.node(id);
    program.nodes.push_back({node.layer->suspend(), std::move(node.option), std::move(node.reads),
                             std::move(node.makes), std::move(node.bottom_blobs),
                             std::move(node.top_blobs), std::move(node.edges)});
  }
  program.values.clear();
  for (const ValueId id : plan.graph_values()) {
    const Value& value = plan.value(id);
    program.values.push_back({{value.blob.data.dtype(), value.blob.data.format()},
                              value.maker,
                              value.readers,
                              value.has_gradient,
                              value.reserved,
                              value.seed});
  }
  for (size_t n = plan.layer_count; n < plan.nodes.size(); ++n) {
    program.conversions.push_back(std::move(plan.nodes[NodeId(n)]));
  }
  for (size_t v = plan.value_count; v < plan.values.size(); ++v) {
    program.converted.push_back(std::move(plan.values[ValueId(v)]));
  }
  plan.kept.push_front(std::move(program));
  if (plan.kept.size() > kKeptPrograms) plan.kept.pop_back();
}

/// Back to the layers of the prototxt, without conversions.
void clear_program(Plan& plan) {
  plan.program.reset();
  plan.ran = false;
  plan.nodes.resize(plan.layer_count);
  plan.values.resize(plan.value_count);
  for (const NodeId id : plan.layer_nodes()) {
    Node& node = plan.node(id);
    node.edges.clear();
    node.bottom_blobs.clear();
    node.top_blobs.clear();
    for (const ValueId value : node.bottoms) node.bottom_blobs.push_back(&plan.value(value).blob);
    for (const ValueId value : node.tops) node.top_blobs.push_back(&plan.value(value).blob);
  }
}

/// Takes up the program that put_aside() kept. The layers have the shapes that it was made for.
void take_up(Plan& plan, std::list<Program>::iterator kept) {
  Program program = std::move(*kept);
  plan.kept.erase(kept);
  for (auto& node : program.conversions) plan.nodes.push_back(std::move(node));
  for (auto& value : program.converted) plan.values.push_back(std::move(value));
  program.conversions.clear();
  program.converted.clear();
  for (const ValueId id : plan.graph_values()) {
    Value& value = plan.value(id);
    const Program::KeptValue& then = program.values[id.index()];
    for (Tensor* tensor : {&value.blob.data, &value.blob.diff}) {
      if (tensor->dtype() != then.layout.dtype || tensor->format() != then.layout.format) {
        tensor->set_layout(then.layout.dtype, then.layout.format);
      }
    }
    value.maker = then.maker;
    value.readers = then.readers;
    value.has_gradient = then.has_gradient;
    value.reserved = then.reserved;
    value.seed = then.seed;
    value.planned = value.blob.shape();
  }
  plan.program = std::move(program);
  bind_memory(plan);
  for (size_t k = 0; k < plan.program->order.size(); ++k) {
    Node& node = plan.node(plan.program->order[k]);
    Program::Kept& then = plan.program->nodes[k];
    node.option = std::move(then.option);
    node.reads = std::move(then.reads);
    node.makes = std::move(then.makes);
    node.bottom_blobs = std::move(then.bottom_blobs);
    node.top_blobs = std::move(then.top_blobs);
    node.edges = std::move(then.edges);
    node.layer->resume(std::move(then.prepared), node.bottom_blobs, node.top_blobs);
  }
  plan.program->nodes.clear();
}

void prepare_layers(Plan& plan) {
  int computing = 0, on_cpu = 0;
  for (const NodeId id : plan.program->order) {
    Node& node = plan.node(id);
    if (node.is_conversion) {
      for (const ValueId value : node.reads) node.bottom_blobs.push_back(&plan.value(value).blob);
      for (const ValueId value : node.makes) node.top_blobs.push_back(&plan.value(value).blob);
      node.option = node.layer->options({}, node.bottom_blobs, node.top_blobs).front();
      node.layer->prepare(node.option, node.bottom_blobs, node.top_blobs);
      continue;
    }
    std::vector<Blob*> bottoms, tops;
    for (const ValueId value : node.reads) bottoms.push_back(&plan.value(value).blob);
    for (const ValueId value : node.makes) tops.push_back(&plan.value(value).blob);
    in_node(node, [&] { node.layer->prepare(node.option, bottoms, tops); });
    node.prepared_for.clear();
    for (const Blob* blob : bottoms) node.prepared_for.push_back(blob->shape());
    if (node.bottoms.empty()) continue;  // data comes from the host anyway
    ++computing;
    if (!node.layer->falls_back_to_cpu()) continue;
    ++on_cpu;
    plan.note(concat("layer '", node.layer->name(), "' (", node.layer->type(), ") runs on the CPU"),
              Severity::warning);
  }
  if (on_cpu != 0) {
    plan.note(concat(on_cpu, " of ", computing, " layers run on the CPU"), Severity::warning);
  }
}

/// Bytes of engines: what each holds, and the largest scratch memory, which they use in turn.
size_t engine_bytes(const Plan& plan) {
  size_t held = 0, scratch = 0;
  for (const NodeId id : plan.program->order) {
    if (const Engine* engine = plan.node(id).layer->engine()) {
      held += engine->extra_bytes();
      scratch = std::max(scratch, engine->scratch_bytes());
    }
  }
  return held + scratch;
}

}  // namespace

std::vector<Shape> Plan::outer_shapes() const {
  std::vector<Shape> shapes;
  for (const auto* ids : {&inputs, &batches}) {
    for (const ValueId id : *ids) shapes.push_back(value(id).blob.shape());
  }
  return shapes;
}

bool Plan::current() const {
  if (!program) return false;
  size_t i = 0;
  for (const auto* ids : {&inputs, &batches}) {
    for (const ValueId id : *ids) {
      if (value(id).blob.shape() != program->shapes[i++]) return false;
    }
  }
  return true;
}

void take_program(Plan& plan) {
  std::vector<Shape> shapes = plan.outer_shapes();
  if (plan.program) put_aside(plan);
  clear_program(plan);
  // Until all is decided again nothing can run: an Error on the way leaves it so.
  infer_shapes(plan);
  const auto known =
      std::find_if(plan.kept.begin(), plan.kept.end(),
                   [&](const Program& program) { return program.shapes == shapes; });
  if (known != plan.kept.end()) return take_up(plan, known);
  plan.program.emplace();
  try {
    plan.program->shapes = std::move(shapes);
    choose_layouts(plan);
    prepare_layers(plan);
    plan.context->save_tuning();
    make_schedule(plan);
    plan_memory(plan);
    bind_memory(plan);
    describe_steps(plan);
    plan.program->memory.parameters = plan.arena.data().bytes() + plan.arena.diff().bytes();
    plan.program->memory.engines = engine_bytes(plan);
  } catch (...) {
    clear_program(plan);
    throw;
  }
}

Net::Net(const NetParameter& param, Context& context, NetOptions options)
    : plan_(build(param, SourceMap(), context, options)) {}

Net::Net(const NetParameter& param, const SourceMap& source, Context& context, NetOptions options)
    : plan_(build_from(param, source, context, options)) {}

Net::Net(const std::string& path, Context& context, NetOptions options) {
  SourceMap source;
  NetParameter param;
  read_text_proto(path, param, &source);
  plan_ = build_from(param, source, context, options);
}

Net::~Net() = default;
Net::Net(Net&&) noexcept = default;
Net& Net::operator=(Net&&) noexcept = default;

const std::string& Net::name() const { return plan_->name; }
Phase Net::phase() const { return plan_->options.phase; }
Context& Net::context() const { return *plan_->context; }

bool Net::has_blob(const std::string& name) const { return plan_->versions.count(name) != 0; }

std::vector<std::string> Net::blob_names() const {
  std::vector<std::string> names;
  for (const ValueId id : plan_->graph_values()) {
    if (plan_->value(id).version == 0) names.push_back(plan_->value(id).name);
  }
  return names;
}

std::vector<Blob*> Net::blob_versions(const std::string& name) {
  const auto found = plan_->versions.find(name);
  if (found == plan_->versions.end()) {
    throw Error("there is no blob '", name, "' in net '", plan_->name, "'",
                did_you_mean(name, blob_names()));
  }
  std::vector<Blob*> blobs;
  for (const ValueId id : found->second) {
    if (!plan_->value(id).fused_away) blobs.push_back(&plan_->value(id).blob);
  }
  return blobs;
}

Blob& Net::blob(const std::string& name) {
  const std::vector<Blob*> versions = blob_versions(name);
  Value& value = plan_->value(plan_->versions[name].back());
  if (value.fused_away) {
    const Node* node = &plan_->node(value.producer);
    while (!node->scheduled()) node = &plan_->node(node->fused_into);
    throw Error("blob '", name, "' was fused into layer '", node->layer->name(),
                "'; name it in NetOptions::keep, or build the net without fusion");
  }
  if (!value.reserved) {
    throw Error("blob '", name,
                "' is not kept after a pass: it shares its memory with others; name it ",
                "in NetOptions::keep");
  }
  return value.blob;
}

bool Net::has_diff(const Blob& blob) const {
  for (const auto& value : plan_->values) {
    if (&value->blob == &blob) return plan_->trains && value->has_gradient;
  }
  return false;
}

const std::vector<std::string>& Net::inputs() const { return plan_->input_names; }
const std::vector<std::string>& Net::outputs() const { return plan_->output_names; }

Tensor& Net::input(const std::string& name) {
  const ValueId id = input_of(*plan_, name);
  if (!id.valid()) {
    throw Error("net '", plan_->name, "' has no input '", name, "'",
                did_you_mean(name, plan_->input_names));
  }
  return plan_->value(id).blob.data;
}

Tensor Net::output(const std::string& name) {
  const ThreadScope threads(plan_->context->threads());
  return blob(name).data.contiguous();
}

void Net::reshape_input(const std::string& name, const Shape& shape) {
  input(name);
  plan_->value(input_of(*plan_, name)).blob.reshape(shape);
}

void Net::reshape() {
  const ThreadScope threads(plan_->context->threads());
  take_program(*plan_);
}

RunState& Net::run_state() {
  plan_->advances = false;
  return *plan_->run;
}

double Net::forward() {
  Plan& plan = *plan_;
  const ThreadScope threads(plan.context->threads());
  begin_pass(plan);
  const double loss = forward_steps(plan, 0, plan.program->order.size() - 1);
  plan.fetched = false;
  plan.ran = true;
  return loss;
}

double Net::forward(size_t first, size_t last) {
  Plan& plan = *plan_;
  const ThreadScope threads(plan.context->threads());
  if (!plan.current()) take_program(plan);
  const size_t begin = steps_of_layer(plan, first).first;
  const size_t end = steps_of_layer(plan, last).second;
  if (begin > end) {
    throw Error("forward goes from a layer to a later one, not from ", first, " to ", last);
  }
  const bool all = begin == 0 && end + 1 == plan.program->order.size();
  plan.ran = plan.ran && !all;
  const double loss = forward_steps(plan, begin, end);
  plan.ran = plan.ran || all;
  return loss;
}

void Net::backward() {
  Plan& plan = *plan_;
  if (!plan.trains) {
    throw Error("net '", plan.name,
                "' was built without backward; build it with phase train, or "
                "NetOptions::Backward::yes");
  }
  check_ran(plan, "backward");
  const ThreadScope threads(plan.context->threads());
  for (const Action& action : plan.program->backward) run_action(plan, action);
}

void Net::backward(size_t first, size_t last) {
  Plan& plan = *plan_;
  check_ran(plan, "backward");
  const size_t begin = steps_of_layer(plan, first).second;
  const size_t end = steps_of_layer(plan, last).first;
  if (begin < end) {
    throw Error("backward goes from a layer to an earlier one, not from ", first, " to ", last);
  }
  for (size_t k = begin + 1; k-- > end;) backward_step(k);
}

void Net::on_gradient(std::function<void(size_t)> hook) { plan_->on_gradient = std::move(hook); }

void Net::clear_gradients() {
  for (Layer* layer : plan_->layers) {
    for (const auto& parameter : layer->params()) parameter->clear_gradient();
  }
}

const std::vector<Layer*>& Net::layers() const {
  return plan_->layers;
}

bool Net::has_layer(const std::string& name) const {
  return std::any_of(plan_->layers.begin(), plan_->layers.end(),
                     [&](const Layer* layer) { return layer->name() == name; });
}

Layer& Net::layer(const std::string& name) {
  std::vector<std::string> names;
  for (Layer* layer : layers()) {
    if (layer->name() == name) return *layer;
    names.push_back(layer->name());
  }
  throw Error("there is no layer '", name, "' in net '", plan_->name, "'",
              did_you_mean(name, names));
}

void Net::forward_step(size_t step) {
  check_current(*plan_, "a step");
  const ThreadScope threads(plan_->context->threads());
  forward_steps(*plan_, checked_step(*plan_, step), step);
  plan_->ran = true;
}

void Net::backward_step(size_t step) {
  check_ran(*plan_, "a step back");
  const ThreadScope threads(plan_->context->threads());
  const auto [first, last] = plan_->program->backward_of[checked_step(*plan_, step)];
  for (size_t i = first; i < last; ++i) run_action(*plan_, plan_->program->backward[i]);
}

Blobs Net::step_tops(size_t step) const {
  return plan_->node(plan_->program->order[checked_step(*plan_, step)]).top_blobs;
}

float Net::loss_weight(const std::string& name) const {
  const auto found = plan_->versions.find(name);
  return found == plan_->versions.end() ? 0 : plan_->value(found->second.back()).loss_weight;
}

ParameterArena& Net::params() { return plan_->arena; }
const ParameterArena& Net::params() const { return plan_->arena; }

MemoryPlan Net::memory() const { return plan_->program ? plan_->program->memory : MemoryPlan(); }
const std::vector<std::string>& Net::notes() const { return plan_->notes; }

const std::vector<NetStep>& Net::steps() const {
  static const std::vector<NetStep> none;
  return plan_->program ? plan_->program->steps : none;
}

}  // namespace crema
