// Checks places, such as masks of pooling layers, against the maps that they are used in.

#include <set>

#include "net/plan.hpp"

namespace crema {
namespace {

/// Calls check(map, maker) for each map that the values of `id` are places of. Values of layers
/// that neither make nor move places are not known.
template <class Check>
void each_map(const Plan& plan, ValueId id, std::set<ValueId>& met, const Check& check) {
  if (!met.insert(id).second) return;
  const Node& node = plan.node(plan.value(id).producer);
  const Layer& layer = plan.layer(plan.value(id).producer);
  for (size_t t = 0; t < node.tops.size(); ++t) {
    if (node.tops[t] != id) continue;
    if (const auto map = layer.places_of(static_cast<int>(t))) check(*map, node);
    for (size_t b = 0; layer.moves_values() && b < node.bottoms.size(); ++b) {
      if (layer.moves(static_cast<int>(b), static_cast<int>(t)))
        each_map(plan, node.bottoms[b], met, check);
    }
  }
}

}  // namespace

void check_places(const Plan& plan, NodeId id) {
  const Node& node = plan.node(id);
  for (size_t b = 0; b < node.bottoms.size(); ++b) {
    std::set<ValueId> met;
    each_map(plan, node.bottoms[b], met, [&](const PlacedMap& map, const Node& maker) {
      plan.layer(id).check_places(static_cast<int>(b), map, named(maker));
    });
  }
}

}  // namespace crema
