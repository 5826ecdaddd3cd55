#include "solver/idle_settings.hpp"

#include <algorithm>

#include "crema/parameter_arena.hpp"
#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"
#include "solver/update_rule.hpp"

namespace crema {

void warn_of_detection_settings(const SolverParameter& param,
                                const std::vector<std::unique_ptr<Net>>& tests, Context& context) {
  const bool detects =
      std::ranges::any_of(tests, [](const auto& net) { return !detection_outputs(*net).empty(); });
  if (detects || tests.empty()) return;
  for (const auto& [given, field] :
       {std::pair{param.has_ap_version(), "ap_version"},
        std::pair{param.has_show_per_class_result(), "show_per_class_result"}}) {
    if (given)
      context.log(Severity::warning,
                  text("the solver's ", field,
                       " has no effect: no test net has a DetectionEvaluate layer whose top is "
                       "an output"));
  }
}

void warn_if_idle(Net& net, bool needs_loss) {
  const bool has_loss = std::ranges::any_of(
      net.blob_names(), [&](const std::string& blob) { return net.loss_weight(blob) != 0; });
  const bool has_learner = std::ranges::any_of(
      net.params().segments(), [](const auto& segment) { return learns(*segment.parameter); });
  if (!has_loss) {
    const char* const advice =
        "the training net has no loss, so training changes nothing; add a loss layer, or "
        "loss_weight to a layer";
    if (needs_loss) throw NoLossError(advice);
    net.context().log(Severity::warning, advice);
  } else if (!has_learner) {
    net.context().log(Severity::warning,
                      "the training net has no parameters that learn, so training changes nothing; "
                      "check lr_mult of its layers");
  }
}

}  // namespace crema
