// Finds the nodes that run backward. A node runs backward if a loss depends on its tops, and if it
// or a layer before it has a parameter that learns. propagate_down and force_backward change the
// latter.
#include <algorithm>

#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

void check_propagates(const Node& node, int bottom) {
  in_node(node, [&] {
    if (!node.layer->can_propagate(bottom))
      throw Error("cannot propagate to bottom ", bottom, " ('", node.layer->param().bottom(bottom),
                  "'), and what learns before it would get no gradient; set its propagate_down to "
                  "false if this is meant");
  });
}

/// Returns the values before which something learns.
IdVector<ValueId, bool> resolve_wanted(Plan& plan) {
  IdVector<ValueId, bool> value_wants(plan.values.size(), false);
  for (const NodeId id : plan.layer_nodes()) {
    Node& node = plan.node(id);
    const LayerParameter& param = node.layer->param();
    bool wants = has_learning_params(*node.layer);
    node.propagate.assign(node.bottoms.size(), false);
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      bool wanted = value_wants[node.bottoms[i]] && node.layer->can_propagate(bottom);
      if (param.propagate_down_size() != 0) {
        wanted = param.propagate_down(bottom);
        if (wanted) check_propagates(node, bottom);
      }
      node.propagate[i] = wanted;
      wants = wants || wanted;
    }
    node.needs_backward = wants;
    for (ValueId top : node.tops) value_wants[top] = wants;
  }
  return value_wants;
}

void resolve_reached(Plan& plan) {
  IdVector<ValueId, bool> reached(plan.values.size(), false);
  for (size_t n = plan.layer_count; n-- > 0;) {
    Node& node = plan.node(NodeId(n));
    bool any = false;
    for (ValueId top : node.tops) any = any || reached[top] || plan.value(top).loss_weight != 0;
    node.needs_backward = node.needs_backward && any;
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      node.propagate[i] = node.propagate[i] && node.needs_backward;
      if (node.propagate[i]) reached[node.bottoms[i]] = true;
    }
  }
}

/// Error if a layer cannot pass the gradient of a loss on to what learns before it, and no
/// propagate_down says that it need not.
void check_ends(Plan& plan, const IdVector<ValueId, bool>& value_wants) {
  IdVector<ValueId, bool> has_gradient(plan.values.size(), false);
  for (size_t n = plan.layer_count; n-- > 0;) {
    const Node& node = plan.node(NodeId(n));
    bool any = false;
    for (ValueId top : node.tops) {
      any = any || has_gradient[top] || plan.value(top).loss_weight != 0;
    }
    const LayerParameter& param = node.layer->param();
    for (size_t i = 0; any && i < node.bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      if (param.propagate_down_size() != 0 && !param.propagate_down(bottom)) continue;
      if (value_wants[node.bottoms[i]]) check_propagates(node, bottom);
      if (node.layer->can_propagate(bottom)) has_gradient[node.bottoms[i]] = true;
    }
  }
}

}  // namespace

bool has_learning_params(const Layer& layer) {
  return std::ranges::any_of(layer.params(), [](const auto& parameter) {
    return parameter->learnable && parameter->lr_mult != 0;
  });
}

void resolve_gradients(Plan& plan) {
  for (const auto& node : plan.nodes) node->propagate.assign(node->bottoms.size(), false);
  if (!plan.trains) return;
  for (const auto& node : plan.nodes) {
    for (const auto& parameter : node->layer->params()) {
      parameter->needs_gradient =
          parameter->learnable && (parameter->lr_mult != 0 || plan.force_backward);
    }
  }
  check_ends(plan, resolve_wanted(plan));
  resolve_reached(plan);
  if (!plan.force_backward) return;
  for (const auto& node : plan.nodes) {
    const auto needs = [](const auto& parameter) { return parameter->needs_gradient; };
    bool any = std::ranges::any_of(node->layer->params(), needs);
    for (size_t i = 0; i < node->bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      node->propagate[i] = node->propagate[i] || node->layer->allow_force_backward(bottom);
      any = any || node->propagate[i];
    }
    node->needs_backward = any;
  }
}

}  // namespace crema
