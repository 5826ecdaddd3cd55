// Removes the layers whose include and exclude rules do not hold for the phase, level and stages.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "model/state_rules.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

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
    plan.note(text("stage '", stage, "' has no effect: no layer's rule names it",
                   did_you_mean(stage, {named.begin(), named.end()})),
              Severity::warning);
  }
}

std::string text_of(const char* field, const NetStateRule& rule) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string content;
  printer.PrintToString(rule, &content);
  return text(field, " { ", content, "}");
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

/// Phase, level and stages of a net.
struct State {
  NetOptions options;
  int changes = 0;  // from the state that the search began with
};

/// All states that the rules of a layer tell apart: `present` first. Empty if they name so many
/// stages that these are too many.
std::vector<State> states_of(const LayerParameter& layer, const NetOptions& present) {
  constexpr size_t kMostStages = 10;
  std::set<std::string> stages;
  std::set<int> levels;
  for (const auto* rules : {&layer.include(), &layer.exclude()}) {
    for (const auto& rule : *rules) {
      stages.insert(rule.stage().begin(), rule.stage().end());
      stages.insert(rule.not_stage().begin(), rule.not_stage().end());
      // The borders between levels that a rule tells apart, and those beside them.
      for (const auto& [has, level] : {std::pair(rule.has_min_level(), rule.min_level()),
                                       std::pair(rule.has_max_level(), rule.max_level())}) {
        if (!has) continue;
        levels.insert(level);
        if (level > std::numeric_limits<int>::min()) levels.insert(level - 1);
        if (level < std::numeric_limits<int>::max()) levels.insert(level + 1);
      }
    }
  }
  if (stages.size() > kMostStages) return {};
  levels.erase(present.level);
  std::vector<int> all_levels = {present.level};
  all_levels.insert(all_levels.end(), levels.begin(), levels.end());
  const Phase other = present.phase == Phase::test ? Phase::train : Phase::test;
  std::vector<State> states;
  for (const Phase phase : {present.phase, other}) {
    for (const int level : all_levels) {
      for (size_t changed = 0; changed < size_t{1} << stages.size(); ++changed) {
        State state{.options = {.phase = phase, .level = level, .stages = present.stages}};
        state.changes = int{phase != present.phase} + int{level != present.level};
        size_t bit = 1;
        for (const std::string& stage : stages) {
          if (changed & bit) {
            ++state.changes;
            std::vector<std::string>& set = state.options.stages;
            if (std::erase(set, stage) == 0) set.push_back(stage);
          }
          bit <<= 1;
        }
        states.push_back(std::move(state));
      }
    }
  }
  return states;
}

std::string phase_name(Phase phase) { return phase == Phase::test ? "TEST" : "TRAIN"; }

/// What takes the layer into the net, of the command line and of a solver: "selected by --stage
/// val, in a solver by test_state { stage: "val" }". Of a test net in a training the latter alone:
/// flags there are those of the training net. "" if nothing does.
std::string how_selected(const LayerParameter& layer, const NetOptions& present) {
  const State* best = nullptr;
  const std::vector<State> states = states_of(layer, present);
  for (const State& state : states) {
    if (best != nullptr && best->changes <= state.changes) continue;
    if (in_state(layer, state.options)) best = &state;
  }
  if (best == nullptr) return {};
  const NetOptions& wanted = best->options;
  std::vector<std::string> flags, fields, removed;
  if (wanted.phase != present.phase) flags.push_back("--phase " + phase_name(wanted.phase));
  if (wanted.level != present.level) {
    flags.push_back(text("--level ", wanted.level));
    fields.push_back(text("level: ", wanted.level));
  }
  for (const std::string& stage : present.stages) {
    if (!has_stage(wanted, stage)) removed.push_back("without stage '" + stage + "'");
  }
  if (wanted.stages.size() + removed.size() > present.stages.size()) {
    flags.push_back("--stage " + joined(wanted.stages, ","));
    for (const std::string& stage : wanted.stages) fields.push_back(text("stage: \"", stage, "\""));
  }
  // Each net of a solver has its phase.
  std::string in_solver;
  if (!fields.empty() && wanted.phase == present.phase)
    in_solver = text(wanted.phase == Phase::test ? "test_state" : "train_state", " { ",
                     joined(fields, " "), " }");
  const bool is_in_training = present.share_params_with != nullptr && !in_solver.empty();
  std::string content = "selected";
  if (is_in_training) {
    content += " by " + in_solver;
  } else {
    if (!flags.empty()) content += " by " + joined(flags, " ");
    if (!in_solver.empty()) content += ", in a solver by " + in_solver;
  }
  if (!removed.empty()) content += (flags.empty() ? " " : ", ") + joined(removed, " ");
  return content;
}

/// Warns of rules that hold in no phase, level and stages, and of a `phase` that never is that of
/// the nets with the layer.
void note_rules_that_never_hold(Plan& plan, const LayerParameter& layer, const Position& position) {
  const auto warn = [&](const std::string& what) {
    plan.note(text(named(layer.name(), position), ": ", what), Severity::warning);
  };
  const auto never_holds = [&](const NetStateRule& rule) {
    LayerParameter alone;
    *alone.add_include() = rule;
    const std::vector<State> states = states_of(alone, plan.options);
    return !states.empty() && std::ranges::none_of(states, [&](const State& state) {
      return holds(rule, state.options);
    });
  };
  bool told = false;
  for (const auto& rule : layer.include()) {
    if (!never_holds(rule)) continue;
    told = true;
    warn(text("its rule ", text_of("include", rule), " can never hold; correct or remove it"));
  }
  for (const auto& rule : layer.exclude()) {
    if (never_holds(rule))
      warn(text("its rule ", text_of("exclude", rule), " can never hold and has no effect; ",
                "correct or remove it"));
  }
  std::set<Phase> phases;
  const std::vector<State> states = states_of(layer, plan.options);
  for (const State& state : states) {
    if (in_state(layer, state.options)) phases.insert(state.options.phase);
  }
  if (states.empty() || told) return;
  if (phases.empty()) {
    std::vector<std::string> rules;
    for (const auto& rule : layer.exclude()) rules.push_back(text_of("exclude", rule));
    warn(text("its rules ", joined(rules, " "),
              " exclude it from every net; correct or remove one of them"));
  } else if (layer.has_phase() &&
             phases.count(layer.phase() == TEST ? Phase::test : Phase::train) == 0) {
    const std::string own = layer.phase() == TEST ? "TEST" : "TRAIN";
    warn(text("it has phase: ", own, ", but its rules take it into nets of phase ",
              phase_name(*phases.begin()), " alone, where it runs as in ", own,
              "; remove one of the two"));
  }
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
        left_out.push_back({.name = layer.name(),
                            .rule = reason(layer, options),
                            .how_selected = how_selected(layer, options),
                            .position = position,
                            .bottoms = {layer.bottom().begin(), layer.bottom().end()},
                            .tops = {layer.top().begin(), layer.top().end()},
                            .data = layer.type() == "Data" || layer.type() == "AnnotatedData"
                                        ? std::make_shared<const LayerParameter>(layer)
                                        : nullptr});
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

void filter_net(Plan& plan, NetParameter& net, std::vector<Position>& positions) {
  merge_state(net, plan.options);
  note_unknown_stages(plan, net);
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    const Position& position = positions[static_cast<size_t>(i)];
    // remove_excluded() refuses layers with rules of both kinds.
    if (layer.include_size() == 0 || layer.exclude_size() == 0)
      note_rules_that_never_hold(plan, layer, position);
  }
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
