#include "model/state_rules.hpp"

#include <algorithm>

#include "crema/error.hpp"
#include "proto/net.pb.h"

namespace crema {

bool has_stage(const NetOptions& options, const std::string& stage) {
  return std::ranges::find(options.stages, stage) != options.stages.end();
}

bool holds(const NetStateRule& rule, const NetOptions& options) {
  if (rule.has_phase() && (rule.phase() == TEST) != (options.phase == Phase::test)) return false;
  if (rule.has_min_level() && options.level < rule.min_level()) return false;
  if (rule.has_max_level() && options.level > rule.max_level()) return false;
  const auto is_set = [&](const std::string& stage) { return has_stage(options, stage); };
  return std::ranges::all_of(rule.stage(), is_set) &&
         std::ranges::none_of(rule.not_stage(), is_set);
}

void merge_state(const NetParameter& net, NetOptions& options) {
  if (options.level == 0) options.level = net.state().level();
  const auto& stages = net.state().stage();
  options.stages.insert(options.stages.end(), stages.begin(), stages.end());
}

bool in_state(const LayerParameter& layer, const NetOptions& options) {
  if (layer.include_size() != 0 && layer.exclude_size() != 0) {
    throw Error("has both include and exclude rules; keep one kind")
        .in_layer(layer.name(), layer.type());
  }
  const auto is_met = [&](const NetStateRule& rule) { return holds(rule, options); };
  if (layer.include_size() != 0) {
    return std::ranges::any_of(layer.include(), is_met);
  }
  return std::ranges::none_of(layer.exclude(), is_met);
}

}  // namespace crema
