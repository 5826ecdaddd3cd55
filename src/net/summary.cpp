// Describes a planned net for the user: its steps, its layers and its graph.
#include <map>
#include <set>

#include "net/plan.hpp"

namespace crema {

void describe_steps(Plan& plan) {
  const auto layout_of = [](const Blob& blob) {
    return to_string(Layout{blob.data.dtype(), blob.data.format()});
  };
  for (const NodeId id : plan.program->order) {
    const Node& node = plan.node(id);
    const Layer& layer = *node.layer;
    NetStep step;
    step.name = layer.name();
    step.type = layer.type();
    step.layer = node.is_conversion ? -1 : static_cast<int>(id.index());
    step.backward = node.needs_backward;
    step.engine = layer.engine_name();
    if (layer.engine() != nullptr) step.detail = layer.engine()->detail();
    if (!node.bottom_blobs.empty()) step.bottom_format = layout_of(*node.bottom_blobs[0]);
    if (!node.top_blobs.empty()) step.top_format = layout_of(*node.top_blobs[0]);
    step.flops = layer.flops(node.bottom_blobs, node.top_blobs);
    if (!node.needs_backward) step.flops.backward = 0;
    plan.program->steps.push_back(std::move(step));
  }
}

NetGraph Net::graph() const {
  NetGraph graph;
  if (!plan_->program) return graph;
  const auto number = [](auto id) { return static_cast<int>(id.index()); };
  std::map<ValueId, int> values;
  const auto value_of = [&](ValueId id) {
    const auto [known, is_new] = values.emplace(id, static_cast<int>(graph.values.size()));
    if (is_new) {
      const Value& value = plan_->value(id);
      graph.values.push_back({.name = value.name,
                              .version = value.version,
                              .shape = value.blob.shape(),
                              .layout = {value.blob.data.dtype(), value.blob.data.format()},
                              .kept = value.reserved || plan_->options.keep_all});
    }
    return known->second;
  };
  for (const ValueId id : plan_->inputs) value_of(id);
  for (const NodeId id : plan_->program->order) {
    const Node& node = plan_->node(id);
    const auto index = static_cast<int>(graph.nodes.size());
    NetGraph::Node& added = graph.nodes.emplace_back();
    added.name = node.layer->name();
    added.type = node.layer->type();
    added.layer = node.is_conversion ? -1 : number(id);
    for (const ValueId value : node.reads) {
      added.bottoms.push_back(value_of(value));
      graph.values[static_cast<size_t>(added.bottoms.back())].readers.push_back(index);
    }
    for (const ValueId value : node.makes) {
      added.tops.push_back(value_of(value));
      graph.values[static_cast<size_t>(added.tops.back())].producer = index;
    }
  }
  return graph;
}

std::vector<LayerSummary> Net::summary() const {
  std::vector<LayerSummary> rows(plan_->layer_count);
  std::set<const ParameterStorage*> counted;
  for (const NodeId id : plan_->layer_nodes()) {
    const Node& node = plan_->node(id);
    LayerSummary& row = rows[id.index()];
    row.name = node.layer->name();
    row.type = node.layer->type();
    row.layer = static_cast<int>(id.index());
    if (!node.scheduled()) row.fused_into = plan_->node(node.fused_into).layer->name();
    for (const auto& parameter : node.layer->params()) {
      if (counted.insert(parameter->storage().get()).second) {
        row.params += parameter->shape().count();
      }
    }
  }
  for (const NetStep& step : steps()) {
    if (step.layer < 0) continue;
    const auto layer = static_cast<size_t>(step.layer);
    const Node& node = plan_->node(NodeId(layer));
    LayerSummary& row = rows[layer];
    static_cast<NetStep&>(row) = step;
    row.falls_back_to_cpu = node.layer->falls_back_to_cpu();
    for (const Blob* blob : node.bottom_blobs) row.bottoms.push_back(blob->shape());
    for (const Blob* blob : node.top_blobs) {
      row.tops.push_back(blob->shape());
      row.top_bytes += blob->data.bytes();
    }
  }
  return rows;
}

}  // namespace crema
