// Checks places, such as masks of pooling layers, against the maps that they are used in.
#include "core/places.hpp"

#include <set>

#include "core/moves_values.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// Calls check(map, maker) for each map that the values of `id` are places of. Values of layers
/// that neither make nor move places are not known.
template <class Check>
void each_map(const Plan& plan, ValueId id, std::set<ValueId>& met, const Check& check) {
  if (!met.insert(id).second) return;
  const Node& node = plan.node(plan.value(id).producer);
  const auto* maker = dynamic_cast<const MakesPlaces*>(node.layer.get());
  const auto* mover = dynamic_cast<const MovesValues*>(node.layer.get());
  for (size_t t = 0; t < node.tops.size(); ++t) {
    if (node.tops[t] != id) continue;
    if (maker != nullptr) {
      if (const auto map = maker->places_of(static_cast<int>(t))) check(*map, node);
    }
    for (size_t b = 0; mover != nullptr && b < node.bottoms.size(); ++b) {
      if (mover->moves(static_cast<int>(b), static_cast<int>(t)))
        each_map(plan, node.bottoms[b], met, check);
    }
  }
}

}  // namespace

void check_places(const Plan& plan, const Node& node) {
  const auto* reader = dynamic_cast<const ReadsPlaces*>(node.layer.get());
  if (reader == nullptr) return;
  for (size_t b = 0; b < node.bottoms.size(); ++b) {
    std::set<ValueId> met;
    each_map(plan, node.bottoms[b], met, [&](const PlacedMap& map, const Node& maker) {
      reader->check_places(static_cast<int>(b), map, named(maker));
    });
  }
}

}  // namespace crema
