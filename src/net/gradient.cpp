// Who needs backward: a layer runs backward when something below it (a parameter that learns, or a
// blob whose gradient is asked for) wants a gradient and a loss above it sends one.
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

bool has_learning_params(const Layer& layer) {
  for (const auto& parameter : layer.params()) {
    if (parameter->learnable && parameter->root().lr_mult != 0) return true;
  }
  return false;
}

void resolve_wanted(Plan& plan) {
  std::vector<bool> value_wants(plan.values.size(), false);
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    const LayerParameter& param = node.layer->param();
    bool wants = has_learning_params(*node.layer);
    node.propagate.assign(node.bottoms.size(), false);
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      const bool below = value_wants[static_cast<size_t>(node.bottoms[i])];
      bool wanted = below && node.layer->can_propagate(bottom);
      if (param.propagate_down_size()) {
        wanted = param.propagate_down(bottom);
        in_node(node, [&] {
          require(!wanted || node.layer->can_propagate(bottom), "cannot propagate to bottom ", i,
                  " ('", param.bottom(bottom), "'); set its propagate_down to false");
        });
      }
      node.propagate[i] = wanted;
      wants = wants || wanted;
    }
    node.needs_backward = wants;
    for (int top : node.tops) value_wants[static_cast<size_t>(top)] = wants;
  }
}

void resolve_reached(Plan& plan) {
  std::vector<bool> reached(plan.values.size(), false);
  for (size_t n = plan.layer_count; n-- > 0;) {
    Node& node = plan.nodes[n];
    bool any = false;
    for (int top : node.tops) {
      any = any || reached[static_cast<size_t>(top)] || plan.value(top).loss_weight != 0;
    }
    node.needs_backward = node.needs_backward && any;
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      node.propagate[i] = node.propagate[i] && node.needs_backward;
      if (node.propagate[i]) reached[static_cast<size_t>(node.bottoms[i])] = true;
    }
  }
}

}  // namespace

void resolve_gradients(Plan& plan) {
  for (auto& node : plan.nodes) node.propagate.assign(node.bottoms.size(), false);
  if (!plan.trains) return;
  for (size_t n = 0; n < plan.layer_count; ++n) {
    for (auto& parameter : plan.nodes[n].layer->params()) {
      parameter->needs_gradient =
          parameter->learnable && (parameter->root().lr_mult != 0 || plan.force_backward);
    }
  }
  resolve_wanted(plan);
  resolve_reached(plan);
  if (plan.force_backward) {
    for (size_t n = 0; n < plan.layer_count; ++n) {
      Node& node = plan.nodes[n];
      bool any = has_learning_params(*node.layer);
      for (const auto& parameter : node.layer->params()) any = any || parameter->needs_gradient;
      for (size_t i = 0; i < node.bottoms.size(); ++i) {
        const int bottom = static_cast<int>(i);
        node.propagate[i] = node.propagate[i] || node.layer->allow_force_backward(bottom);
        any = any || node.propagate[i];
      }
      node.needs_backward = any;
    }
  }
  for (size_t n = 0; n < plan.layer_count; ++n) {
    plan.nodes[n].layer->set_propagates(plan.nodes[n].propagate);
  }
}

}  // namespace crema
