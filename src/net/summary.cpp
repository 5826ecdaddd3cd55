// Describes a planned net for the user: its steps, its values and its layers.

#include <algorithm>
#include <set>

#include "core/row_ranges.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// Of a layer that joins rows: "2 of 3 bottoms in place" where some of them are.
std::string bottoms_in_place(const ProgramNode& node) {
  const auto* const joins = dynamic_cast<const JoinsRows*>(node.layer);
  if (joins == nullptr || joins->joined_rows() == 0 || node.bottom_blobs.size() < 2) return {};
  const Tensor& whole = node.top_blobs[0]->data;
  const auto there = std::ranges::count_if(node.bottom_blobs, [&](const Blob* bottom) {
    return whole.has_memory() && bottom->data.memory() == whole.memory();
  });
  if (there == 0) return {};
  return text(there, " of ", node.bottom_blobs.size(), " bottoms in place");
}

}  // namespace

void describe_steps(const Plan& plan, Program& program) {
  const auto indices = [](const std::vector<ValueId>& ids) {
    std::vector<int> all;
    for (const ValueId id : ids) all.push_back(static_cast<int>(id.index()));
    return all;
  };
  const auto format_of = [](const std::vector<Blob*>& blobs) {
    return blobs.empty() ? std::string() : to_string(blobs[0]->data.layout());
  };
  std::set<NodeId> again;
  for (const Action& action : program.backward) {
    if (action.again) again.insert(action.node);
  }
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    const Layer& layer = *node.layer;
    NetStep& step = program.steps.emplace_back();
    step.name = layer.name();
    step.type = layer.type();
    step.layer = node.is_conversion() ? -1 : static_cast<int>(id.index());
    step.bottoms = indices(node.reads);
    step.tops = indices(node.makes);
    step.backward = node.needs_backward;
    step.recomputed = again.contains(id);
    // Data sources always run on the host.
    step.falls_back_to_cpu = falls_back_to_cpu(plan, node) && !node.reads.empty();
    step.engine = engine_name(node.option);
    step.detail = node.kernel->detail();
    if (step.detail.empty()) step.detail = bottoms_in_place(node);
    step.bottom_format = format_of(node.bottom_blobs);
    step.top_format = format_of(node.top_blobs);
    // Of the layer alone, and of those that a chain computes with it.
    if (node.is_conversion()) {
      step.flops = layer.flops(node.bottom_blobs, node.top_blobs);
    } else {
      for (const NodeId each : plan.graph->node_ids()) {
        if (program.runs(each) != id || !plan.node(each).scheduled()) continue;
        const Flops flops = program[each].layer->flops(plan.planned_bottoms(each), plan.tops[each]);
        step.flops.forward += flops.forward;
        step.flops.backward += program[each].needs_backward ? flops.backward : 0;
      }
    }
    if (!node.needs_backward) step.flops.backward = 0;
    const auto noises = plan.noise.find(id);
    if (noises == plan.noise.end()) continue;
    for (const ParameterNoise& noise : noises->second) {
      Blob exact = noise.exact, noisy = noise.noisy;
      Blob *const bottom[] = {&exact}, *const top[] = {&noisy};
      step.flops.forward += noise.layer->flops(bottom, top).forward;
    }
  }
}

std::vector<NetValue> Net::values() const {
  std::vector<NetValue> values;
  if (!plan_->program) return values;
  for (const ProgramValue& value : plan_->program->values) {
    values.push_back({.name = value.name,
                      .version = value.version,
                      .shape = value.blob->shape(),
                      .layout = value.blob->data.layout(),
                      .bytes = value.fused_away ? 0 : value.blob->data.bytes(),
                      .kept = value.reserved || plan_->options.keep_all});
  }
  for (size_t s = 0; s < steps().size(); ++s) {
    const auto step = static_cast<int>(s);
    for (const int bottom : steps()[s].bottoms) {
      values[static_cast<size_t>(bottom)].readers.push_back(step);
    }
    for (const int top : steps()[s].tops) values[static_cast<size_t>(top)].producer = step;
  }
  return values;
}

std::vector<LayerSummary> Net::summary() const {
  std::vector<LayerSummary> rows(plan_->layers.size());
  for (const NetStep& step : steps()) {
    if (step.layer >= 0) static_cast<NetStep&>(rows[static_cast<size_t>(step.layer)]) = step;
  }
  std::set<const ParameterStorage*> counted;
  for (const NodeId id : plan_->graph->node_ids()) {
    const Node& node = plan_->node(id);
    LayerSummary& row = rows[id.index()];
    row.name = node.layer->name();
    row.type = node.layer->type();
    row.layer = static_cast<int>(id.index());
    if (!node.scheduled()) {
      row.fused_into = plan_->node(node.fused_into).layer->name();
    } else if (plan_->program != nullptr && plan_->program->runs(id) != id) {
      row.fused_into = plan_->node(plan_->program->runs(id)).layer->name();
    }
    for (const auto& parameter : node.layer->params()) {
      if (counted.insert(parameter->storage().get()).second) {
        row.params += parameter->shape().count();
      }
    }
  }
  return rows;
}

const std::vector<Layer*>& Net::layers() const { return plan_->layers; }

bool Net::has_layer(const std::string& name) const {
  return std::ranges::find(plan_->layers, name, &Layer::name) != plan_->layers.end();
}

float Net::loss_weight(const std::string& name) const {
  const auto found = plan_->graph->versions.find(name);
  return found == plan_->graph->versions.end() ? 0 : plan_->value(found->second.back()).loss_weight;
}

MemoryPlan Net::memory() const { return plan_->program ? plan_->program->memory : MemoryPlan(); }
const std::vector<std::string>& Net::notes() const { return plan_->notes; }

const std::vector<NetStep>& Net::steps() const {
  static const std::vector<NetStep> none;
  return plan_->program ? plan_->program->steps : none;
}

}  // namespace crema
