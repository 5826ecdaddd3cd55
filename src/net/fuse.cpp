// Fusion: a layer takes over the work of the one that alone reads its top. What can be taken over
// is the rooms' knowledge (Layer::absorb); that nobody else needs the value between is checked
// here.
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

}  // namespace

void fuse_layers(Plan& plan) {
  // On another device than the CPU its engines compute one layer at a time.
  if (!plan.options.fuse || plan.options.keep_all || plan.context->on_gpu()) return;
  for (size_t n = 0; n < plan.layer_count; ++n) {
    if (plan.nodes[n].absorbed_into >= 0) continue;
    for (int next = only_reader(plan, plan.nodes[n]); next >= 0;
         next = only_reader(plan, plan.nodes[n])) {
      Node& node = plan.nodes[n];
      Node& reader = plan.node(next);
      if (!node.layer->absorb(*reader.layer)) break;
      Value& between = plan.value(node.tops[0]);
      between.gone = true;
      between.uses.clear();
      node.tops = reader.tops;
      node.top_blobs = reader.top_blobs;
      node.needs_backward = node.needs_backward || reader.needs_backward;
      plan.value(node.tops[0]).producer = static_cast<int>(n);
      reader.absorbed_into = static_cast<int>(n);
    }
  }
}

}  // namespace crema
