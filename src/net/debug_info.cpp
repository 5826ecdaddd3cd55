// Means of absolute values, as the published debug_info shows them.
#include "crema/debug_info.hpp"

#include <cmath>

#include "crema/parameter_arena.hpp"
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Sums over the values of a tensor.
struct Sums {
  double absolute = 0, squares = 0;
  int64_t count = 0;

  void add(double value) {
    absolute += std::abs(value);
    squares += value * value;
    ++count;
  }
  double mean() const { return count == 0 ? 0 : absolute / static_cast<double>(count); }
};

void add_values(const Tensor& tensor, Sums& sums) {
  const Tensor plain = tensor.to(DType::f64, Format::contiguous);
  for (const double value : plain.values<double>()) sums.add(value);
}

double mean_of(const Tensor& tensor) {
  Sums sums;
  add_values(tensor, sums);
  return sums.mean();
}

/// The gradient, of which cleared memory counts as zero.
double mean_of_gradient(const Parameter& parameter) {
  return parameter.is_cleared() ? 0 : mean_of(parameter.diff);
}

/// The name of the prototxt's `param`, or else the index.
std::string param_name(const Layer& layer, size_t index) {
  const auto i = static_cast<int>(index);
  const LayerParameter& param = layer.param();
  const bool named = i < param.param_size() && !param.param(i).name().empty();
  return named ? param.param(i).name() : text(index);
}

bool is_logged(const Plan& plan) { return plan.debug_info || plan.logs_passes; }

void log_line(const Plan& plan, const std::string& text) {
  plan.context->log(Severity::info, "    " + text);
}

}  // namespace

void log_action(const Plan& plan, const Action& action) {
  const ProgramNode& node = (*plan.program)[action.node];
  if (!is_logged(plan) || node.is_conversion() || action.again) return;
  const Layer& layer = *node.layer;
  const auto line = [&](const char* pass, const std::string& what, double mean) {
    log_line(plan, text("[", pass, "] Layer ", layer.name(), ", ", what, ": ", mean));
  };
  if (action.kind == Action::Kind::forward) {
    for (const Blob* top : action.tops)
      line("Forward", text("top blob ", top->name, " data"), mean_of(top->data));
    for (size_t i = 0; i < layer.params().size(); ++i) {
      line("Forward", text("param blob ", param_name(layer, i), " data"),
           mean_of(layer.params()[i]->data));
    }
  } else if (action.kind == Action::Kind::backward) {
    for (size_t i = 0; i < action.bottoms.size(); ++i) {
      if (!node.propagate[i]) continue;
      const Blob& bottom = *action.bottoms[i];
      line("Backward", text("bottom blob ", bottom.name, " diff"), mean_of(bottom.diff));
    }
    for (size_t i = 0; i < layer.params().size(); ++i) {
      const Parameter& parameter = *layer.params()[i];
      if (parameter.needs_gradient)
        line("Backward", text("param blob ", i, " diff"), mean_of_gradient(parameter));
    }
  }
}

void log_all_parameters(const Plan& plan) {
  if (!is_logged(plan)) return;
  Sums data, diff;
  for (const auto& segment : plan.arena.segments()) {
    const Parameter& parameter = *segment.parameter;
    add_values(parameter.data, data);
    if (parameter.needs_gradient && !parameter.is_cleared()) add_values(parameter.diff, diff);
  }
  log_line(plan, text("[Backward] All net params (data, diff): L1 norm = (", data.absolute, ", ",
                      diff.absolute, "); L2 norm = (", std::sqrt(data.squares), ", ",
                      std::sqrt(diff.squares), ")"));
}

void set_debug_info(Net& net, bool on) { Plan::of(net).logs_passes = on; }

bool has_debug_info(const Net& net) { return is_logged(Plan::of(net)); }

UpdateInfo::UpdateInfo(Net& net) : net_(net) {
  if (!is_logged(Plan::of(net))) return;
  for (const auto& segment : net.params().segments()) {
    const Parameter& parameter = *segment.parameter;
    before_.push_back(parameter.needs_gradient ? parameter.data.to(DType::f64, Format::contiguous)
                                               : Tensor());
  }
}

void UpdateInfo::log() const {
  const Plan& plan = Plan::of(net_);
  for (size_t s = 0; s < before_.size(); ++s) {
    const ParameterArena::Segment& segment = net_.params().segments()[s];
    if (!before_[s].has_memory()) continue;
    const Tensor after = segment.parameter->data.to(DType::f64, Format::contiguous);
    Sums step;
    for (int64_t i = 0; i < after.count(); ++i) step.add(before_[s].at(i) - after.at(i));
    const std::string name =
        param_name(net_.layer(segment.layer), static_cast<size_t>(segment.index));
    log_line(plan, text("[Update] Layer ", segment.layer, ", param ", name,
                        " data: ", mean_of(before_[s]), "; diff: ", step.mean()));
  }
}

}  // namespace crema
