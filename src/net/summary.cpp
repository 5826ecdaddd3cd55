// What the passes decided, for people: steps, layers, notes.
#include <set>

#include "net/plan.hpp"

namespace crema {

void describe_steps(Plan& plan) {
  plan.steps.clear();
  for (int id : plan.order) {
    const Node& node = plan.node(id);
    const Layer& layer = *node.layer;
    NetStep step;
    step.name = layer.name();
    step.type = layer.type();
    step.layer = node.is_conversion ? -1 : id;
    step.backward = node.needs_backward;
    step.engine = layer.engine_name();
    if (layer.engine()) step.detail = layer.engine()->detail();
    if (!node.bottom_blobs.empty()) {
      step.bottom_format = to_string(node.bottom_blobs[0]->data.format());
    }
    if (!node.top_blobs.empty()) step.top_format = to_string(node.top_blobs[0]->data.format());
    step.flops = layer.flops(node.bottom_blobs, node.top_blobs);
    if (!node.needs_backward) step.flops.backward = 0;
    plan.steps.push_back(std::move(step));
  }
}

std::vector<LayerSummary> Net::summary() const {
  std::vector<LayerSummary> rows(plan_->layer_count);
  std::set<const Parameter*> counted;
  for (size_t n = 0; n < rows.size(); ++n) {
    const Node& node = plan_->nodes[n];
    LayerSummary& row = rows[n];
    row.name = node.layer->name();
    row.type = node.layer->type();
    row.layer = static_cast<int>(n);
    if (!node.scheduled()) row.fused_into = plan_->node(node.absorbed_into).layer->name();
    for (const auto& parameter : node.layer->params()) {
      if (counted.insert(&parameter->root()).second) row.params += parameter->shape().count();
    }
  }
  for (const NetStep& step : plan_->steps) {
    if (step.layer < 0) continue;
    const Node& node = plan_->node(step.layer);
    LayerSummary& row = rows[static_cast<size_t>(step.layer)];
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
