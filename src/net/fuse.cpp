// Fusion: a layer that is one operation on the top of another layer becomes a step of that layer's
// tail. Layer::as_tail_step names the operation, and Layer::accepts allows the tail. This pass
// checks that nothing else reads the value between the two layers.
//
// `recompute` changes no choice here, so that it changes no bit of the results: the fused layers
// are computed again together if it is set for the last of them, whose tops they make.
#include <algorithm>
#include <optional>

#include "core/takes_parts.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// The only reader of the top of `node`, if both nodes have one top and the value is not kept.
/// Otherwise invalid. Sets `use` to the bottom of the reader.
NodeId only_reader(const Graph& graph, const Node& node, Use& use) {
  if (node.tops.size() != 1) return {};
  const Value& value = graph[node.tops[0]];
  if (value.uses.size() != 1 || value.keep || value.loss_weight != 0) return {};
  use = value.uses[0];
  return graph[use.node].tops.size() == 1 ? use.node : NodeId();
}

/// Removes the value between two fused nodes from the graph.
void remove_between(Graph& graph, ValueId id) {
  graph[id].fused_away = true;
  graph[id].uses.clear();
}

/// Moves an operation in front of a layer that commutes with it into the tail of that layer.
void move_steps_back(Graph& graph) {
  for (const NodeId id : graph.node_ids()) {
    Node& node = graph[id];
    const std::optional<TailStep> step = node.layer->as_tail_step();
    if (!step || node.bottoms.size() != 1) continue;
    Use use;
    const NodeId next = only_reader(graph, node, use);
    if (!next.valid() || graph[next].bottoms.size() != 1) continue;
    Node& reader = graph[next];
    if (!reader.layer->commutes_with(*step) || !accepts_tail(*reader.layer, {*step})) continue;
    reader.tail = {*step};
    const ValueId source = node.bottoms[0];
    for (Use& other : graph[source].uses) {
      if (other.node == id) other = {next, 0};
    }
    remove_between(graph, node.tops[0]);
    reader.bottoms = {source};
    reader.propagate[0] = reader.propagate[0] && node.propagate[0];
    node.fused_into = next;
  }
}

/// The node has a parameter that learns, of its layer or of its tail.
bool learns(const Node& node) {
  const auto needs = [](const auto& parameter) { return parameter && parameter->needs_gradient; };
  return std::ranges::any_of(node.layer->params(), needs) ||
         std::ranges::any_of(node.tail, [&](const TailStep& step) {
           return needs(step.scale) || needs(step.bias);
         });
}

/// Appends the operation of the reader of its top to the tail of `node`. Returns false if that is
/// not possible.
bool append(Graph& graph, NodeId id, const Use& use) {
  Node& node = graph[id];
  const Node& reader = graph[use.node];
  std::optional<TailStep> step = reader.layer->as_tail_step();
  if (!step) return false;
  ValueId other;
  if (step->kind == TailStep::Kind::add) {
    // The other summand must be computed before the node runs.
    other = reader.bottoms[1 - use.bottom];
    const NodeId maker = graph[other].producer;
    if (other == node.tops[0] || !(maker < id) || !graph[maker].scheduled()) return false;
    step->bottom = static_cast<int>(node.bottoms.size());
  } else if (use.bottom != 0 || reader.bottoms.size() != 1) {
    return false;
  }
  // As one node they run backward together: the parameters of a layer that runs none would learn.
  if (reader.needs_backward && !node.needs_backward && learns(node)) return false;
  Tail tail = node.tail;
  tail.push_back(*step);
  if (!accepts_tail(*node.layer, tail)) return false;
  node.tail = std::move(tail);
  if (other.valid()) {
    for (Use& entry : graph[other].uses) {
      if (entry.node == use.node) entry = {id, node.bottoms.size()};
    }
    node.propagate.push_back(reader.propagate[1 - use.bottom]);
    node.bottoms.push_back(other);
    node.follows_values = node.follows_values || reader.follows_values;
    node.follows_guess = node.follows_guess || reader.follows_guess;
  }
  return true;
}

/// Whether the tops of the layer are equal parts of its bottom along the last axis.
bool cuts_last_axis(const Plan& plan, NodeId id) {
  const Layer& layer = *plan.node(id).layer;
  if (layer.type() != "Slice" || plan.node(id).bottoms.size() != 1) return false;
  // Parts of given sizes may be equal in these shapes alone.
  if (layer.param().slice_param().slice_point_size() > 0) return false;
  const Shape whole = plan.blobs[plan.node(id).bottoms[0]]->shape();
  const int axis = whole.rank() - 1;
  return std::ranges::all_of(plan.node(id).tops, [&](ValueId top) {
    Shape part = plan.blobs[top]->shape();
    if (part.rank() != whole.rank() || part[axis] * std::ssize(plan.node(id).tops) != whole[axis])
      return false;
    part.set(axis, whole[axis]);
    return part == whole;
  });
}

/// Leaves out a Slice whose tops a layer reads where they lie.
void join_parts(const Plan& plan, Graph& graph, NodeId id) {
  Node& node = graph[id];
  auto* const reader = dynamic_cast<TakesParts*>(node.layer.get());
  if (reader == nullptr || !node.scheduled()) return;
  const auto parts = static_cast<size_t>(reader->parts());
  if (node.bottoms.size() < parts) return;
  const NodeId maker = graph[node.bottoms[0]].producer;
  const Node& cut = graph[maker];
  if (!cut.scheduled() || cut.follows_values || cut.tops.size() != parts ||
      !std::equal(cut.tops.begin(), cut.tops.end(), node.bottoms.begin()) ||
      !cuts_last_axis(plan, maker))
    return;
  for (size_t i = 0; i < parts; ++i) {
    const Value& part = graph[node.bottoms[i]];
    if (part.uses.size() != 1 || part.keep || part.loss_weight != 0 ||
        node.propagate[i] != node.propagate[0])
      return;
  }
  if (node.propagate[0] != cut.propagate[0]) return;
  const ValueId whole = cut.bottoms[0];
  for (size_t i = 0; i < parts; ++i) remove_between(graph, node.bottoms[i]);
  for (Use& use : graph[whole].uses) {
    if (use.node == maker) use = {id, 0};
  }
  const auto gone = static_cast<std::ptrdiff_t>(parts) - 1;
  node.bottoms.erase(node.bottoms.begin(), node.bottoms.begin() + gone);
  node.propagate.erase(node.propagate.begin(), node.propagate.begin() + gone);
  node.bottoms[0] = whole;
  for (size_t i = 1; i < node.bottoms.size(); ++i) {
    for (Use& use : graph[node.bottoms[i]].uses) {
      if (use.node == id && use.bottom == i + parts - 1) use.bottom = i;
    }
  }
  graph[maker].fused_into = id;
  reader->take_whole();
}

}  // namespace

void fuse_layers(const Plan& plan, Graph& graph) {
  if (!plan.options.fuse || plan.options.keep_all || plan.debug_info) return;
  move_steps_back(graph);
  if (!plan.context->on_gpu()) {
    for (const NodeId id : graph.node_ids()) join_parts(plan, graph, id);
  }
  for (const NodeId id : graph.node_ids()) {
    Node& node = graph[id];
    while (node.scheduled()) {
      Use use;
      const NodeId next = only_reader(graph, node, use);
      if (!next.valid()) break;
      Node& reader = graph[next];
      if (!append(graph, id, use)) break;
      remove_between(graph, node.tops[0]);
      node.tops = reader.tops;
      node.needs_backward = node.needs_backward || reader.needs_backward;
      node.recompute = reader.recompute;
      graph[node.tops[0]].producer = id;
      reader.fused_into = id;
    }
  }
}

void require(Plan& plan) {
  for (const NodeId id : plan.graph->node_ids()) {
    const Node& node = plan.node(id);
    if (!node.scheduled()) continue;
    const auto shown = [&](ValueId top) { return plan.shows(plan.value(top)); };
    node.layer->require({.bottom_diffs = node.propagate,
                         .top_diffs_stay = std::ranges::any_of(node.tops, shown),
                         .tail = node.tail});
  }
}

}  // namespace crema
