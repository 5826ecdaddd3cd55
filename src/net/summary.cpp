// What the passes decided, for people: steps, layers, notes.
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
  std::vector<LayerSummary> rows;
  for (size_t n = 0; n < plan_->layer_count; ++n) {
    const Node& node = plan_->nodes[n];
    const Layer& layer = *node.layer;
    LayerSummary row;
    row.name = layer.name();
    row.type = layer.type();
    for (const auto& parameter : layer.params()) {
      if (!parameter->is_shared()) row.params += parameter->shape().count();
    }
    if (!node.scheduled()) {
      row.fused_into = plan_->node(node.absorbed_into).layer->name();
      rows.push_back(std::move(row));
      continue;
    }
    row.engine = layer.engine_name();
    if (layer.engine()) row.detail = layer.engine()->detail();
    row.falls_back_to_cpu = layer.falls_back_to_cpu();
    for (const Blob* blob : node.bottom_blobs) row.bottoms.push_back(blob->shape());
    for (const Blob* blob : node.top_blobs) {
      row.tops.push_back(blob->shape());
      row.top_bytes += blob->data.bytes();
    }
    if (!node.top_blobs.empty()) row.top_format = to_string(node.top_blobs[0]->data.format());
    row.flops = layer.flops(node.bottom_blobs, node.top_blobs);
    if (!node.needs_backward) row.flops.backward = 0;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace crema
