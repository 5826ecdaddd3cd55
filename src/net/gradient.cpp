// Finds the nodes that run backward. A node runs backward if a loss depends on its tops, and if it
// or a layer before it has a parameter that learns. propagate_down and force_backward change the
// latter.
//
// A loss trains what it depends on, or the net is an Error: where the path from a loss to what
// learns meets a bottom or a top that has no gradient, a propagate_down of false has to say that
// this is meant.
#include <algorithm>
#include <functional>

#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Whether a propagate_down of the prototxt keeps gradients from the bottom.
bool is_kept_back(const Node& node, size_t bottom) {
  const LayerParameter& param = node.layer->param();
  const int i = static_cast<int>(bottom);
  return i < param.propagate_down_size() && !param.propagate_down(i);
}

bool can_propagate(const Node& node, size_t bottom) {
  return node.layer->can_propagate(static_cast<int>(bottom));
}

/// Whether a gradient is missing if it does not reach the bottom.
bool is_on_path(const Node& node, size_t bottom) {
  return !is_kept_back(node, bottom) && !node.layer->is_constant(static_cast<int>(bottom));
}

bool has_gradient(const Node& node, size_t top) {
  return node.layer->has_gradient(static_cast<int>(top));
}

/// Whether a top is made of the bottom. Of layers that pass several bottoms on, such as scores and
/// labels, a top holds some of them.
bool depends(const Node& node, size_t top, size_t bottom) {
  const Layer& layer = *node.layer;
  return !layer.moves_values() || layer.moves(static_cast<int>(bottom), static_cast<int>(top));
}

/// `loss_weight` of the prototxt, or that of a loss layer.
bool is_loss(const Plan& plan, ValueId value) { return plan.value(value).loss_weight != 0; }

void resolve_wanted(Graph& graph) {
  IdVector<ValueId, bool> wants(graph.values.size(), false);
  for (Node& node : graph.nodes) {
    const LayerParameter& param = node.layer->param();
    bool any = has_learning_params(*node.layer);
    node.propagate.assign(node.bottoms.size(), false);
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      bool wanted = wants[node.bottoms[i]] && can_propagate(node, i);
      if (param.propagate_down_size() != 0) {
        wanted = !is_kept_back(node, i);
        in_node(node, [&] {
          if (wanted && !can_propagate(node, i))
            throw Error("cannot propagate to bottom ", i, " ('", param.bottom(static_cast<int>(i)),
                        "'); set its propagate_down to false");
        });
      }
      node.propagate[i] = wanted;
      any = any || wanted;
    }
    node.needs_backward = any;
    for (size_t t = 0; t < node.tops.size(); ++t) {
      wants[node.tops[t]] = any && has_gradient(node, t);
    }
  }
}

void resolve_reached(const Plan& plan, Graph& graph) {
  IdVector<ValueId, bool> reached(graph.values.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    Node& node = graph[NodeId(n)];
    bool any = false;
    for (ValueId top : node.tops) any = any || reached[top] || is_loss(plan, top);
    node.needs_backward = node.needs_backward && any;
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      node.propagate[i] = node.propagate[i] && node.needs_backward;
      if (node.propagate[i]) reached[node.bottoms[i]] = true;
    }
  }
}

/// Refuses losses that are shown and do not train what they depend on.
class PathCheck {
 public:
  explicit PathCheck(const Plan& plan)
      : plan_(plan), losses_(plan.graph->values.size()), learns_(plan.graph->values.size(), false) {
    find_learning();
  }

  void run() {
    for (size_t n = plan_.graph->nodes.size(); n-- > 0;) {
      const Node& node = plan_.node(NodeId(n));
      check_own_losses(node);
      check_tops(node);
      for (size_t i = 0; i < node.bottoms.size(); ++i) {
        if (!is_on_path(node, i)) continue;
        const Node* loss = loss_behind(node, i);
        if (loss == nullptr) {
          pass_on_end(node, i);
        } else if (can_propagate(node, i)) {
          losses_[node.bottoms[i]] = loss;
        } else if (must_propagate(node, i)) {
          throw bottom_error(node, i, *loss);
        } else {
          ends_[node.bottoms[i]] = {&node, i, loss};
        }
      }
    }
  }

 private:
  /// A path from a loss ended at a bottom to which the layer cannot propagate.
  struct End {
    const Node* node = nullptr;
    size_t bottom = 0;
    const Node* loss = nullptr;
  };

  /// Sets `learns_`: something learns on which the value depends, and it is no constant.
  void find_learning() {
    for (const Node& node : plan_.graph->nodes) {
      for (size_t t = 0; t < node.tops.size(); ++t) {
        learns_[node.tops[t]] = has_gradient(node, t) && learns(node, t);
      }
    }
  }

  /// Whether something learns on which top t depends, in the layer or before it.
  bool learns(const Node& node, size_t top) const {
    bool any = has_learning_params(*node.layer);
    for (size_t i = 0; i < node.bottoms.size(); ++i)
      any = any || (depends(node, top, i) && learns_behind(node, i));
    return any;
  }

  bool learns_behind(const Node& node, size_t bottom) const {
    return is_on_path(node, bottom) && learns_[node.bottoms[bottom]];
  }

  /// Whether something learns behind a bottom to which the layer cannot propagate, without being
  /// meant to stay as it is.
  bool must_propagate(const Node& node, size_t bottom) const {
    const ValueId value = node.bottoms[bottom];
    if (!learns_[value]) return false;
    if (!node.layer->takes_constants(static_cast<int>(bottom))) return true;
    const Node& producer = plan_.node(plan_.value(value).producer);
    // A script's layer is asked for gradients whether it has any or not: what it makes for such a
    // bottom, such as the targets of py-faster-rcnn, is constant.
    return producer.needs_backward && !producer.layer->has_unbounded_tops();
  }

  /// A loss whose gradient comes to the top; null if there is none.
  const Node* loss_at(const Node& node, size_t top) const {
    return is_loss(plan_, node.tops[top]) ? &node : losses_[node.tops[top]];
  }

  /// A loss that depends on the bottom; null if there is none. On a bottom that is moved to no top,
  /// such as a selector, all tops depend.
  const Node* loss_behind(const Node& node, size_t bottom) const {
    const Node *found = nullptr, *any = nullptr;
    bool moved = false;
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const bool holds = depends(node, t, bottom);
      moved = moved || holds;
      const Node* loss = loss_at(node, t);
      if (loss == nullptr || !has_gradient(node, t)) continue;
      any = loss;
      if (holds) found = loss;
    }
    return moved ? found : any;
  }

  /// Error if the gradient of a loss comes to a top that has none, or if the layer learns and a
  /// path ended behind it: no other path comes to it.
  void check_tops(const Node& node) const {
    const End* end = nullptr;
    bool trained = false;
    for (size_t t = 0; t < node.tops.size(); ++t) {
      if (const Node* loss = loss_at(node, t)) {
        if (!has_gradient(node, t) && learns(node, t)) throw top_error(node, t, *loss);
        trained = trained || has_gradient(node, t);
      }
      const auto found = ends_.find(node.tops[t]);
      if (end == nullptr && found != ends_.end()) end = &found->second;
    }
    if (end != nullptr && !trained && has_learning_params(*node.layer))
      throw bottom_error(*end->node, end->bottom, *end->loss, &node);
  }

  /// Error if the layer has no gradient, but is a loss, or if one of its losses is a top without.
  void check_own_losses(const Node& node) const {
    const auto& propagate = node.layer->param().propagate_down();
    const bool meant = !propagate.empty() && std::ranges::none_of(propagate, std::identity());
    if (node.bottoms.empty() || meant) return;
    bool any = has_learning_params(*node.layer);
    for (size_t i = 0; i < node.bottoms.size(); ++i) any = any || can_propagate(node, i);
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const Value& top = plan_.value(node.tops[t]);
      if (top.loss_weight == 0 || (any && has_gradient(node, t))) continue;
      throw of(node, Error(any ? text("top ", t, " ('", top.name, "') has no gradient")
                               : std::string("the layer has no gradient"),
                           ", so the loss '", top.name, "' (loss_weight: ", top.loss_weight,
                           ") would be shown and train nothing; set loss_weight: 0, or, if this is "
                           "meant, ",
                           kept_back(node, node.bottoms.size())));
    }
  }

  /// Passes on the end of a path from the tops that depend on the bottom.
  void pass_on_end(const Node& node, size_t bottom) {
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const auto end = ends_.find(node.tops[t]);
      if (end == ends_.end() || !depends(node, t, bottom)) continue;
      const End passed = end->second;
      ends_.try_emplace(node.bottoms[bottom], passed);
      return;
    }
  }

  /// The nearest layer that learns among those that the value depends on.
  const Node& learner(ValueId value) const {
    const Node& node = plan_.node(plan_.value(value).producer);
    const auto top = static_cast<size_t>(std::ranges::find(node.tops, value) - node.tops.begin());
    for (size_t i = 0; !has_learning_params(*node.layer) && i < node.bottoms.size(); ++i) {
      if (depends(node, top, i) && learns_behind(node, i)) return learner(node.bottoms[i]);
    }
    return node;
  }

  static Error of(const Node& node, Error error) {
    return error.in_layer(node.layer->name(), node.layer->type()).at(node.position);
  }

  /// "propagate_down: true propagate_down: false": false for `bottom` and for what cannot
  /// propagate. All false if there is no such bottom.
  static std::string kept_back(const Node& node, size_t bottom) {
    std::vector<std::string> entries;
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      const bool propagates = bottom < node.bottoms.size() && i != bottom && can_propagate(node, i);
      entries.push_back(text("propagate_down: ", propagates ? "true" : "false"));
    }
    return joined(entries, " ");
  }

  /// "the loss 'a' would not train layer 'b' (InnerProduct)".
  std::string does_not_train(const Node& loss, const Node& learner) const {
    std::vector<std::string> names;
    for (const ValueId top : loss.tops) {
      if (is_loss(plan_, top)) names.push_back(text("'", plan_.value(top).name, "'"));
    }
    return text("the loss ", joined(names), " of ", named(loss), " would not train ",
                named(learner));
  }

  static std::string without(const Node& loss) {
    return text("leave the loss out with loss_weight: 0 in layer '", loss.layer->name(), "'");
  }

  Error bottom_error(const Node& node, size_t bottom, const Node& loss,
                     const Node* learning = nullptr) const {
    const Value& value = plan_.value(node.bottoms[bottom]);
    if (learning == nullptr) learning = &learner(node.bottoms[bottom]);
    return of(node, Error("cannot propagate to bottom ", bottom, " ('", value.name, "'), so ",
                          does_not_train(loss, *learning), " through it; if this is meant, set ",
                          kept_back(node, bottom), ", or ", without(loss)));
  }

  Error top_error(const Node& node, size_t top, const Node& loss) const {
    const std::string& name = plan_.value(node.tops[top]).name;
    return of(node, Error("top ", top, " ('", name, "') has no gradient, so ",
                          does_not_train(loss, learner(node.tops[top])),
                          " through it; if this is meant, set propagate_down: false for bottom '",
                          name, "' of the layer that reads it, or ", without(loss)));
  }

  const Plan& plan_;
  IdVector<ValueId, const Node*> losses_;  // whose gradient comes to the value; null if none does
  IdVector<ValueId, bool> learns_;
  std::map<ValueId, End> ends_;
};

}  // namespace

bool has_learning_params(const Layer& layer) {
  return std::ranges::any_of(layer.params(), [](const auto& parameter) {
    return parameter->learnable && parameter->lr_mult != 0;
  });
}

void resolve_gradients(const Plan& plan, Graph& graph) {
  for (Node& node : graph.nodes) node.propagate.assign(node.bottoms.size(), false);
  if (!plan.trains) return;
  for (Node& node : graph.nodes) {
    for (const auto& parameter : node.layer->params()) {
      parameter->needs_gradient =
          parameter->learnable && (parameter->lr_mult != 0 || plan.force_backward);
    }
  }
  resolve_wanted(graph);
  PathCheck(plan).run();
  resolve_reached(plan, graph);
  if (!plan.force_backward) return;
  for (Node& node : graph.nodes) {
    const auto needs = [](const auto& parameter) { return parameter->needs_gradient; };
    bool any = std::ranges::any_of(node.layer->params(), needs);
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      const int bottom = static_cast<int>(i);
      node.propagate[i] = node.propagate[i] || node.layer->allow_force_backward(bottom);
      any = any || node.propagate[i];
    }
    node.needs_backward = any;
  }
}

}  // namespace crema
