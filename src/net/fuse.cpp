// Fusion: a layer takes over the work of the one that alone reads its top. What can be taken over
// is the rooms' knowledge (Layer::absorb); that nobody else needs the value between is checked
// here.
#include <algorithm>
#include <optional>

#include "net/plan.hpp"

namespace crema {
namespace {

/// The node that alone reads the only top of `node`, or -1.
int only_reader(const Plan& plan, const Node& node) {
  if (node.tops.size() != 1) return -1;
  const Value& value = plan.value(node.tops[0]);
  if (value.uses.size() != 1 || value.keep || value.loss_weight != 0) return -1;
  const Use use = value.uses[0];
  const Node& reader = plan.nodes[static_cast<size_t>(use.node)];
  if (reader.bottoms.size() != 1 || reader.tops.size() != 1) return -1;
  return use.node;
}

/// Takes the value between two nodes that became one out of the graph.
void remove_between(Plan& plan, int value) {
  plan.value(value).gone = true;
  plan.value(value).uses.clear();
}

/// Activations in front of layers that commute with them go behind those, and into them.
void move_activations_back(Plan& plan) {
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    const std::optional<Activation> activation = node.layer->activation();
    const int next = activation ? only_reader(plan, node) : -1;
    if (next < 0) continue;
    Node& reader = plan.node(next);
    if (!reader.layer->commutes_with(*activation) || !reader.layer->absorb(*node.layer)) continue;
    const int source = node.bottoms[0];
    for (Use& use : plan.value(source).uses) {
      if (use.node == static_cast<int>(n)) use = {next, 0};
    }
    remove_between(plan, node.tops[0]);
    reader.bottoms = {source};
    reader.bottom_blobs = {&plan.value(source).blob};
    reader.propagate[0] = reader.propagate[0] && node.propagate[0];
    node.absorbed_into = next;
  }
}

}  // namespace

void fuse_layers(Plan& plan) {
  if (!plan.options.fuse || plan.options.keep_all) return;
  move_activations_back(plan);
  for (size_t n = 0; n < plan.layer_count; ++n) {
    if (plan.nodes[n].absorbed_into >= 0) continue;
    for (int next = only_reader(plan, plan.nodes[n]); next >= 0;
         next = only_reader(plan, plan.nodes[n])) {
      Node& node = plan.nodes[n];
      Node& reader = plan.node(next);
      if (!node.layer->absorb(*reader.layer)) break;
      remove_between(plan, node.tops[0]);
      node.tops = reader.tops;
      node.top_blobs = reader.top_blobs;
      node.needs_backward = node.needs_backward || reader.needs_backward;
      plan.value(node.tops[0]).producer = static_cast<int>(n);
      reader.absorbed_into = static_cast<int>(n);
    }
  }
}

}  // namespace crema
