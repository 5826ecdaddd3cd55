// Removes the layers whose include and exclude rules do not hold for the phase, level and stages.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>

#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

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

/// Adds the stages of the net's `state` to the options, and its level if the options have none.
void merge_state(const NetParameter& net, NetOptions& options) {
  if (options.level == 0) options.level = net.state().level();
  const auto& stages = net.state().stage();
  options.stages.insert(options.stages.end(), stages.begin(), stages.end());
}

/// Warns of stages in the options that no rule of the net names.
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

std::string text_of(const char* field, const NetStateRule& rule) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(rule, &text);
  return concat(field, " { ", text, "}");
}

/// The rules because of which the layer is not in the net.
std::string reason(const LayerParameter& layer, const NetOptions& options) {
  std::vector<std::string> rules;
  for (const auto& rule : layer.include()) rules.push_back(text_of("include", rule));
  for (const auto& rule : layer.exclude()) {
    if (holds(rule, options)) rules.push_back(text_of("exclude", rule));
  }
  return joined(rules, " ");
}

/// Removes the layers whose rules do not hold, and their positions. Returns them.
std::vector<LeftOut> remove_excluded(NetParameter& net, const NetOptions& options,
                                     std::vector<Position>& positions) {
  std::vector<LeftOut> left_out;
  int kept = 0;
  for (int i = 0; i < net.layer_size(); ++i) {
    Position& position = positions[static_cast<size_t>(i)];
    try {
      const LayerParameter& layer = net.layer(i);
      if (!in_state(layer, options)) {
        left_out.push_back(
            {layer.name(),
             reason(layer, options),
             position,
             {layer.top().begin(), layer.top().end()},
             layer.type() == "Data" ? std::make_shared<const LayerParameter>(layer) : nullptr});
        continue;
      }
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
  return left_out;
}

}  // namespace

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

void filter_net(Plan& plan, NetParameter& net, std::vector<Position>& positions) {
  merge_state(net, plan.options);
  note_unknown_stages(plan, net);
  plan.left_out = remove_excluded(net, plan.options, positions);
}

NetParameter layers_of(const NetParameter& net, NetOptions options) {
  NetParameter layers = net;
  std::vector<Position> positions = upgrade_net(layers).positions;
  merge_state(layers, options);
  remove_excluded(layers, options, positions);
  return layers;
}

}  // namespace crema
