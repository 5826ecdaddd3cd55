// Which layers of a prototxt belong to a net of given phase, level and stages.
#include <algorithm>

#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

bool has_stage(const NetOptions& options, const std::string& stage) {
  return std::find(options.stages.begin(), options.stages.end(), stage) != options.stages.end();
}

bool holds(const NetStateRule& rule, const NetOptions& options) {
  if (rule.has_phase() && (rule.phase() == TEST) != (options.phase == Phase::test)) return false;
  if (rule.has_min_level() && options.level < rule.min_level()) return false;
  if (rule.has_max_level() && options.level > rule.max_level()) return false;
  for (const auto& stage : rule.stage()) {
    if (!has_stage(options, stage)) return false;
  }
  for (const auto& stage : rule.not_stage()) {
    if (has_stage(options, stage)) return false;
  }
  return true;
}

}  // namespace

void filter_net(const NetParameter& in, const NetOptions& options, NetParameter& out,
                std::vector<int>& kept) {
  out = in;
  out.clear_layer();
  kept.clear();
  for (int i = 0; i < in.layer_size(); ++i) {
    const LayerParameter& layer = in.layer(i);
    require(layer.include_size() == 0 || layer.exclude_size() == 0, "layer '", layer.name(),
            "' has both include and exclude rules; keep one kind");
    bool wanted = layer.include_size() == 0;
    for (const auto& rule : layer.include()) wanted = wanted || holds(rule, options);
    for (const auto& rule : layer.exclude()) wanted = wanted && !holds(rule, options);
    if (!wanted) continue;
    *out.add_layer() = layer;
    kept.push_back(i);
  }
}

}  // namespace crema
