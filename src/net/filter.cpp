// Removes the layers whose include and exclude rules do not hold for the phase, level and stages.
#include <algorithm>
#include <set>

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

bool in_state(const LayerParameter& layer, const NetOptions& options) {
  if (layer.include_size() != 0 && layer.exclude_size() != 0) {
    throw Error("has both include and exclude rules; keep one kind")
        .in_layer(layer.name(), layer.type());
  }
  const auto is_met = [&](const NetStateRule& rule) { return holds(rule, options); };
  if (layer.include_size() != 0) {
    return std::any_of(layer.include().begin(), layer.include().end(), is_met);
  }
  return std::none_of(layer.exclude().begin(), layer.exclude().end(), is_met);
}

void merge_state(const NetParameter& net, NetOptions& options) {
  if (options.level == 0) options.level = net.state().level();
  const auto& stages = net.state().stage();
  options.stages.insert(options.stages.end(), stages.begin(), stages.end());
}

void note_unknown_stages(Plan& plan, const NetParameter& net) {
  std::set<std::string> named;
  for (const auto& layer : net.layer()) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const auto& rule : *rules) {
        named.insert(rule.stage().begin(), rule.stage().end());
        named.insert(rule.not_stage().begin(), rule.not_stage().end());
      }
    }
  }
  for (const auto& stage : plan.options.stages) {
    if (named.count(stage)) continue;
    plan.note(concat("stage '", stage, "' has no effect: no layer's rule names it",
                     did_you_mean(stage, {named.begin(), named.end()})),
              Severity::warning);
  }
}

void filter_net(NetParameter& net, const NetOptions& options, std::vector<Position>& positions) {
  int kept = 0;
  for (int i = 0; i < net.layer_size(); ++i) {
    Position& position = positions[static_cast<size_t>(i)];
    try {
      if (!in_state(net.layer(i), options)) continue;
    } catch (Error& error) {
      error.at(position);
      throw;
    }
    net.mutable_layer()->SwapElements(i, kept);
    std::swap(position, positions[static_cast<size_t>(kept)]);
    ++kept;
  }
  net.mutable_layer()->DeleteSubrange(kept, net.layer_size() - kept);
  positions.resize(static_cast<size_t>(kept));
}

}  // namespace crema
