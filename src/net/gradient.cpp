// Finds the nodes that run backward. A node runs backward if a loss depends on its tops, and if it
// or a layer before it has a parameter that learns. propagate_down and force_backward change the
// latter.
#include <algorithm>

#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

void resolve_wanted(Plan& plan) {
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
        in_node(node, [&] {
          if (wanted && !node.layer->can_propagate(bottom))
            throw Error("cannot propagate to bottom ", i, " ('", param.bottom(bottom),
                        "'); set its propagate_down to false");
        });
      }
      node.propagate[i] = wanted;
      wants = wants || wanted;
    }
    node.needs_backward = wants;
    for (ValueId top : node.tops) value_wants[top] = wants;
  }
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

/// Error if a layer learns, but all paths from it to a loss end at bottoms to which the gradient
/// cannot propagate. A propagate_down of false says that this is meant.
void check_ends(const Plan& plan) {
  struct End {
    const Node* node = nullptr;
    int bottom = 0;
  };
  IdVector<ValueId, bool> has_gradient(plan.values.size(), false);
  IdVector<ValueId, End> ends(plan.values.size(), End{});
  for (size_t n = plan.layer_count; n-- > 0;) {
    const Node& node = plan.node(NodeId(n));
    const LayerParameter& param = node.layer->param();
    bool any = false;
    End end;
    for (const ValueId top : node.tops) {
      any = any || has_gradient[top] || plan.value(top).loss_weight != 0;
      if (ends[top].node != nullptr) end = ends[top];
    }
    if (!any && end.node != nullptr && has_learning_params(*node.layer)) {
      in_node(*end.node, [&] {
        throw Error("cannot propagate to bottom ", end.bottom, " ('",
                    end.node->layer->param().bottom(end.bottom), "'), so layer '", param.name(),
                    "' (", param.type(),
                    "), which learns, gets no gradient; set propagate_down to "
                    "false if this is meant");
      });
    }
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      if (param.propagate_down_size() != 0 && !param.propagate_down(bottom)) continue;
      const bool passes = node.layer->can_propagate(bottom);
      if (any && passes) has_gradient[node.bottoms[i]] = true;
      if (any && !passes) ends[node.bottoms[i]] = {&node, bottom};
      if (!any && end.node != nullptr) ends[node.bottoms[i]] = end;
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
  resolve_wanted(plan);
  check_ends(plan);
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
