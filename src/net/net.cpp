// Building a net by its passes, running it, and looking at it.
#include "crema/net.hpp"

#include <algorithm>
#include <set>

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

std::unique_ptr<Plan> build(const NetParameter& given, const SourceMap& source, Context& context,
                            const NetOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->context = &context;
  plan->options = options;
  plan->trains = trains(options);
  plan->file = source.file();

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
  place_params(*plan);
  load_own_blobs(*plan, given);
  resolve_gradients(*plan);
  fuse_layers(*plan);
  plan_shapes(*plan);
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
  const Tensor& data = value.blob.data;
  double sum = 0;
  if (data.format() == Format::contiguous) {
    dispatch_float(data.dtype(), [&](auto zero) {
      for (const auto x : data.values<decltype(zero)>()) sum += static_cast<double>(x);
    });
  } else {
    const int64_t count = data.count();
    for (int64_t i = 0; i < count; ++i) sum += data.at(i);
  }
  return sum * static_cast<double>(value.loss_weight);
}

/// What the source of a node's labels, which are always bottom 1, calls sample `index` of the
/// present batch; "" where none or several are behind them.
std::string record_key(const Plan& plan, const Node& node, int64_t index) {
  if (node.bottoms.size() < 2) return {};
  const int64_t samples = plan.value(node.bottoms[1]).blob.shape().dim_or_1(0);
  std::set<int> met;
  std::vector<int> above = {node.bottoms[1]};
  std::set<const DataSource*> sources;
  while (!above.empty()) {
    const Value& value = plan.value(above.back());
    above.pop_back();
    // A layer that cuts or joins batches numbers samples anew.
    if (value.blob.shape().dim_or_1(0) != samples) return {};
    if (!met.insert(value.producer).second) continue;
    const Node& producer = plan.nodes[static_cast<size_t>(value.producer)];
    const auto* source = dynamic_cast<const DataSource*>(producer.layer.get());
    if (source != nullptr) sources.insert(source);
    above.insert(above.end(), producer.bottoms.begin(), producer.bottoms.end());
  }
  return sources.size() == 1 ? (*sources.begin())->record_key(index) : std::string();
}

void forward_node(Plan& plan, int id) {
  Node& node = plan.node(id);
  in_node(node, [&] {
    try {
      node.layer->forward(node.bottom_blobs, node.top_blobs);
    } catch (Error& error) {
      if (error.sample() >= 0) error.in_record(record_key(plan, node, error.sample()));
      throw;
    }
  });
}

void seed_top(Value& value) {
  switch (value.seed) {
    case Seed::none:
      break;
    case Seed::zero:
      value.blob.diff.fill(0);
      break;
    case Seed::weight:
      value.blob.diff.fill(value.loss_weight);
      break;
    case Seed::add_weight:
      add_to_each(value.blob.diff, value.loss_weight);
      break;
  }
}

void backward_node(Plan& plan, int id) {
  Node& node = plan.node(id);
  in_node(node, [&] {
    for (int top : node.tops) seed_top(plan.value(top));
    node.layer->backward(node.top_blobs, node.propagate, node.bottom_blobs);
    for (const GradientSum& sum : node.sums) accumulate(*plan.context, sum.from, sum.into->diff);
  });
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
  require(plan.ran, what, " needs a forward pass before it, net '", plan.name,
          "' has not run in its present shapes");
}

int node_of_step(const Plan& plan, size_t step) {
  require(step < plan.order.size(), "there is no step ", step, ", net '", plan.name, "' has ",
          plan.order.size(), " at present");
  return plan.order[step];
}

/// Input `name` as a value, or -1.
int input_of(const Plan& plan, const std::string& name) {
  const auto found = std::find(plan.input_names.begin(), plan.input_names.end(), name);
  if (found == plan.input_names.end()) return -1;
  return plan.inputs[static_cast<size_t>(found - plan.input_names.begin())];
}

}  // namespace

bool Plan::current() const {
  if (!ready) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (value(inputs[i]).blob.shape() != planned_shapes[i]) return false;
  }
  return true;
}

void Plan::need_values() {
  const ThreadScope threads(context->threads());
  first_values->fill();
  for (const auto& theirs : shared_values) theirs->fill();
}

void plan_shapes(Plan& plan) {
  // Until all is decided again nothing can run: an Error on the way leaves it so.
  plan.ready = false;
  plan.ran = false;
  plan.order.clear();
  plan.steps.clear();
  // Back to the net without conversions.
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      if (static_cast<size_t>(node.bottoms[i]) >= plan.value_count) {
        node.bottoms[i] = plan.node(plan.value(node.bottoms[i]).producer).bottoms[0];
      }
      node.edges[i].reset();
      node.bottom_blobs[i] = &plan.value(node.bottoms[i]).blob;
    }
  }
  plan.nodes.resize(plan.layer_count);
  plan.values.resize(plan.value_count);

  infer_shapes(plan);
  choose_formats(plan);
  int computing = 0, on_cpu = 0;
  for (int id : plan.order) {
    Node& node = plan.node(id);
    node.layer->set_keeps_top_diffs(std::any_of(
        node.tops.begin(), node.tops.end(), [&](int top) { return plan.shows(plan.value(top)); }));
    in_node(node, [&] { node.layer->prepare(node.option, node.bottom_blobs, node.top_blobs); });
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
  plan.context->save_tuning();
  plan_memory(plan);
  describe_steps(plan);

  plan.memory.parameters = plan.arena.data().bytes() + plan.arena.diff().bytes();
  plan.memory.engines = 0;
  size_t scratch = 0;
  for (int id : plan.order) {
    if (const Engine* engine = plan.node(id).layer->engine()) {
      plan.memory.engines += engine->extra_bytes();
      scratch = std::max(scratch, engine->scratch_bytes());
    }
  }
  plan.memory.engines += scratch;
  plan.planned_shapes.clear();
  for (int input : plan.inputs) plan.planned_shapes.push_back(plan.value(input).blob.shape());
  plan.ready = true;
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
  for (size_t v = 0; v < plan_->value_count; ++v) {
    if (plan_->values[v]->version == 0) names.push_back(plan_->values[v]->name);
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
  for (int id : found->second) {
    if (!plan_->value(id).gone) blobs.push_back(&plan_->value(id).blob);
  }
  return blobs;
}

Blob& Net::blob(const std::string& name) {
  const std::vector<Blob*> versions = blob_versions(name);
  Value& value = plan_->value(plan_->versions[name].back());
  if (value.gone) {
    const Node* node = &plan_->node(value.producer);
    while (!node->scheduled()) node = &plan_->node(node->absorbed_into);
    throw Error("blob '", name, "' was fused into layer '", node->layer->name(),
                "'; name it in NetOptions::keep, or build the net without fusion");
  }
  if (!value.reserved) {
    throw Error("blob '", name,
                "' is gone after a pass: it shares its memory with others; name it ",
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
  const int id = input_of(*plan_, name);
  if (id < 0) {
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
  plan_shapes(*plan_);
}

double Net::forward() {
  Plan& plan = *plan_;
  if (!plan.current()) reshape();
  plan.need_values();
  const ThreadScope threads(plan.context->threads());
  double loss = 0;
  for (int id : plan.order) {
    forward_node(plan, id);
    for (int top : plan.node(id).tops) {
      if (plan.value(top).loss_weight != 0) loss += weighted_sum(plan.value(top));
    }
  }
  plan.ran = true;
  return loss;
}

void Net::backward() {
  Plan& plan = *plan_;
  require(plan.trains, "net '", plan.name,
          "' was built without backward; build it with phase "
          "train, or NetOptions::Backward::yes");
  check_ran(plan, "backward");
  const ThreadScope threads(plan.context->threads());
  for (size_t k = plan.order.size(); k-- > 0;) {
    if (plan.node(plan.order[k]).needs_backward) backward_node(plan, plan.order[k]);
  }
}

void Net::clear_gradients() {
  for (Layer* layer : plan_->layers) {
    for (const auto& parameter : layer->params()) parameter->clear_gradient();
  }
}

const std::vector<Layer*>& Net::layers() const {
  plan_->need_values();
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
  plan_->need_values();
  const ThreadScope threads(plan_->context->threads());
  forward_node(*plan_, node_of_step(*plan_, step));
  plan_->ran = true;
}

void Net::backward_step(size_t step) {
  check_ran(*plan_, "a step back");
  const ThreadScope threads(plan_->context->threads());
  backward_node(*plan_, node_of_step(*plan_, step));
}

Blobs Net::step_tops(size_t step) const {
  return plan_->node(node_of_step(*plan_, step)).top_blobs;
}

float Net::loss_weight(const std::string& name) const {
  const auto found = plan_->versions.find(name);
  return found == plan_->versions.end() ? 0 : plan_->value(found->second.back()).loss_weight;
}

ParameterArena& Net::params() {
  plan_->need_values();
  return plan_->arena;
}

const ParameterArena& Net::params() const {
  plan_->need_values();
  return plan_->arena;
}

MemoryPlan Net::memory() const { return plan_->memory; }
const std::vector<std::string>& Net::notes() const { return plan_->notes; }

const std::vector<NetStep>& Net::steps() const { return plan_->steps; }

}  // namespace crema
