#include "solver/test_output.hpp"

#include <algorithm>

#include "core/less_is_better.hpp"
#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"

namespace crema {
void TestOutput::check(const std::vector<std::unique_ptr<Net>>& test_nets,
                       const std::vector<int>& test_iter) {
  const auto count = static_cast<int>(test_nets.size());
  if (net < 0 || net >= count)
    throw Error(setting, " '", name, "' is of test net ", net, ", and the solver has ", count,
                "; add test_iter and test_interval, or correct ", net_setting);
  if (test_iter[static_cast<size_t>(net)] == 0)
    throw Error(setting, " '", name, "' is of test net ", net,
                ", whose test_iter is 0; give it the number of batches of a test");
  Net& tested = *test_nets[static_cast<size_t>(net)];
  const std::vector<std::string> outputs = tested.outputs();
  if (std::ranges::find(outputs, name) == outputs.end())
    throw Error(setting, " '", name, "' is no output of test net ", net,
                did_you_mean(name, outputs, "its outputs are"));
  const std::vector<std::string> detections = detection_outputs(tested);  // one number of all rows
  if (std::ranges::count(detections, name) == 0 &&
      std::ranges::count(row_outputs(tested), name) != 0)
    throw Error(setting, " '", name,
                "' has another number of values in each batch; name an output of one value, such "
                "as that of DetectionEvaluate");
  const int64_t values =
      std::ranges::count(detections, name) != 0 ? 1 : tested.output(name).count();
  if (values != 1)
    throw Error(setting, " '", name, "' has ", values, " values; name an output of one value");
  is_least = best_is == SolverParameter::BY_NAME ? less_is_better(name, tested.loss_weight(name))
                                                 : best_is == SolverParameter::LEAST;
}

std::optional<double> TestOutput::value_in(const TestReport& report) const {
  if (name.empty() || report.net != net) return {};
  for (const TestReport::Output& output : report.outputs) {
    if (output.name == name) return output.value;
  }
  return {};
}

}  // namespace crema
