// Building a net by its passes, running it, and looking at it.
#include "crema/net.hpp"

#include <omp.h>

#include <algorithm>

#include "data/data_source.hpp"
#include "model/text_format.hpp"
#include "net/accumulate.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// The thread that runs a net uses as many OpenMP threads as its context says, and gets its own
/// setting back.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~ThreadScope() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

bool trains(const NetOptions& options) {
  if (options.backward == NetOptions::Backward::by_phase) return options.phase == Phase::train;
  return options.backward == NetOptions::Backward::yes;
}

std::unique_ptr<Plan> build(const NetParameter& param, const SourceMap* source,
                            const std::string& file, Context& context, const NetOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->context = &context;
  plan->options = options;
  plan->trains = trains(options);
  plan->file = file;

  check_has_layers(param, source != nullptr ? *source : SourceMap());
  const ThreadScope threads(context.threads());
  NetParameter upgraded = param;
  const std::vector<Position> positions = upgrade_net(upgraded, source, file);
  NetParameter net;
  std::vector<int> kept;
  filter_net(upgraded, options, net, kept);
  std::vector<Position> kept_positions;
  for (int i : kept) kept_positions.push_back(positions[static_cast<size_t>(i)]);

  build_graph(*plan, net, kept_positions);
  place_params(*plan, net);
  resolve_gradients(*plan);
  fuse_layers(*plan);
  plan_shapes(*plan);
  return plan;
}

NetParameter read_net(const std::string& prototxt, SourceMap& source) {
  NetParameter param;
  read_text_proto(prototxt, param, &source);
  return param;
}

double weighted_sum(const Value& value) {
  double sum = 0;
  for (int64_t i = 0; i < value.blob.data.count(); ++i) sum += value.blob.data.at(i);
  return sum * static_cast<double>(value.loss_weight);
}

/// What the net's data source calls sample `index` of the present batch, or "".
std::string record_key(const Plan& plan, int64_t index) {
  for (Layer* layer : plan.layers) {
    if (const auto* source = dynamic_cast<const DataSource*>(layer))
      return source->record_key(index);
  }
  return {};
}

void forward_node(Plan& plan, int id) {
  Node& node = plan.node(id);
  in_node(node, [&] {
    try {
      node.layer->forward(node.bottom_blobs, node.top_blobs);
    } catch (Error& error) {
      if (error.sample() >= 0) error.in_record(record_key(plan, error.sample()));
      throw;
    }
  });
}

/// Gives the diffs of tops that no reader wrote their start: the loss weight, or zero. A caller's
/// diff of an output stays.
void seed_tops(Plan& plan, Node& node) {
  for (int top : node.tops) {
    Value& value = plan.value(top);
    const bool written = std::any_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
      const Node& reader = plan.node(use.node);
      return reader.needs_backward && reader.propagate[static_cast<size_t>(use.bottom)];
    });
    if (value.loss_weight != 0) {
      if (written) {
        add_scalar(value.blob.diff, value.loss_weight);
      } else {
        value.blob.diff.fill(value.loss_weight);
      }
    } else if (!written && !value.is_output) {
      value.blob.diff.fill(0);
    }
  }
}

void backward_node(Plan& plan, int id) {
  Node& node = plan.node(id);
  in_node(node, [&] {
    seed_tops(plan, node);
    node.layer->backward(node.top_blobs, node.propagate, node.bottom_blobs);
    for (size_t i = 0; i < node.edges.size(); ++i) {
      if (node.edges[i]) {
        accumulate(*plan.context, node.edges[i]->diff, plan.value(node.bottoms[i]).blob.diff);
      }
    }
  });
}

}  // namespace

void plan_shapes(Plan& plan) {
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
    in_node(node, [&] { node.layer->prepare(node.option, node.bottom_blobs, node.top_blobs); });
    if (node.bottoms.empty()) continue;  // data comes from the host anyway
    ++computing;
    if (!node.layer->falls_back_to_cpu()) continue;
    ++on_cpu;
    plan.note(concat("layer '", node.layer->name(), "' (", node.layer->type(),
                     ") has no kernel for this device and runs on the CPU"),
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
  for (int id : plan.order) {
    if (const Engine* engine = plan.node(id).layer->engine()) {
      plan.memory.engines += engine->extra_bytes();
    }
  }
  plan.planned_inputs.clear();
  for (const auto& name : plan.input_names) {
    plan.planned_inputs[name] = plan.value(plan.versions[name].front()).blob.shape();
  }
}

Net::Net(const NetParameter& param, Context& context, NetOptions options)
    : plan_(build(param, nullptr, "", context, options)) {}

Net::Net(const std::string& prototxt, Context& context, NetOptions options) {
  SourceMap source;
  const NetParameter param = read_net(prototxt, source);
  plan_ = build(param, &source, prototxt, context, options);
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
    const std::string hint = nearest_name(name, blob_names());
    throw Error("there is no blob '", name, "' in net '", plan_->name, "'",
                hint.empty() ? "" : "; did you mean '" + hint + "'?");
  }
  std::vector<Blob*> blobs;
  for (int id : found->second) {
    if (!plan_->value(id).gone) blobs.push_back(&plan_->value(id).blob);
  }
  return blobs;
}

Blob& Net::blob(const std::string& name) {
  const std::vector<Blob*> versions = blob_versions(name);
  if (versions.empty()) {
    const Value& value = plan_->value(plan_->versions[name].back());
    throw Error("blob '", name, "' was fused into layer '",
                plan_->node(value.producer).layer->name(),
                "'; name it in NetOptions::keep, or build the net without fusion");
  }
  return *versions.back();
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
  if (plan_->planned_inputs.count(name) == 0) {
    const std::string hint = nearest_name(name, plan_->input_names);
    throw Error("net '", plan_->name, "' has no input '", name, "'",
                hint.empty() ? "" : "; did you mean '" + hint + "'?");
  }
  return plan_->value(plan_->versions[name].front()).blob.data;
}

Tensor Net::output(const std::string& name) { return blob(name).data.contiguous(); }

void Net::reshape_input(const std::string& name, const Shape& shape) {
  input(name);
  plan_->value(plan_->versions[name].front()).blob.reshape(shape);
}

void Net::reshape() {
  const ThreadScope threads(plan_->context->threads());
  plan_shapes(*plan_);
}

double Net::forward() {
  Plan& plan = *plan_;
  for (const auto& [name, shape] : plan.planned_inputs) {
    if (plan.value(plan.versions[name].front()).blob.shape() != shape) {
      reshape();
      break;
    }
  }
  const ThreadScope threads(plan.context->threads());
  double loss = 0;
  for (int id : plan.order) {
    forward_node(plan, id);
    for (int top : plan.node(id).tops) {
      if (plan.value(top).loss_weight != 0) loss += weighted_sum(plan.value(top));
    }
  }
  return loss;
}

void Net::backward() {
  Plan& plan = *plan_;
  require(plan.trains, "net '", plan.name,
          "' was built without backward; build it with phase "
          "train, or NetOptions::Backward::yes");
  const ThreadScope threads(plan.context->threads());
  for (size_t k = plan.order.size(); k-- > 0;) {
    if (plan.node(plan.order[k]).needs_backward) backward_node(plan, plan.order[k]);
  }
}

void Net::clear_gradients() { plan_->arena.clear_gradients(); }

const std::vector<Layer*>& Net::layers() const { return plan_->layers; }

bool Net::has_layer(const std::string& name) const {
  return std::any_of(plan_->layers.begin(), plan_->layers.end(),
                     [&](const Layer* layer) { return layer->name() == name; });
}

Layer& Net::layer(const std::string& name) {
  std::vector<std::string> names;
  for (Layer* layer : plan_->layers) {
    if (layer->name() == name) return *layer;
    names.push_back(layer->name());
  }
  const std::string hint = nearest_name(name, names);
  throw Error("there is no layer '", name, "' in net '", plan_->name, "'",
              hint.empty() ? "" : "; did you mean '" + hint + "'?");
}

void Net::forward_step(size_t step) {
  const ThreadScope threads(plan_->context->threads());
  forward_node(*plan_, plan_->order.at(step));
}

void Net::backward_step(size_t step) {
  const ThreadScope threads(plan_->context->threads());
  backward_node(*plan_, plan_->order.at(step));
}

Blobs Net::step_tops(size_t step) const { return plan_->node(plan_->order.at(step)).top_blobs; }

float Net::loss_weight(const std::string& name) const {
  const auto found = plan_->versions.find(name);
  return found == plan_->versions.end() ? 0 : plan_->value(found->second.back()).loss_weight;
}

ParameterArena& Net::params() { return plan_->arena; }
const ParameterArena& Net::params() const { return plan_->arena; }
MemoryPlan Net::memory() const { return plan_->memory; }
const std::vector<std::string>& Net::notes() const { return plan_->notes; }

const std::vector<NetStep>& Net::steps() const { return plan_->steps; }

}  // namespace crema
