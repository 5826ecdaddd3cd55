#include "solver/test_output.hpp"

#include <algorithm>
#include <cctype>

#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"

namespace crema {
namespace {

/// Whether a word of the name says that less is better. Words are of letters only: "top1_err" has
/// the words "top" and "err", "terrain" is another word.
bool has_word_of_loss(const std::string& name) {
  std::string word;
  for (const char sign : name + " ") {
    if (std::isalpha(static_cast<unsigned char>(sign)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(sign)));
      continue;
    }
    for (const char* of_loss : {"loss", "losses", "err", "error", "errors"}) {
      if (word == of_loss) return true;
    }
    word.clear();
  }
  return false;
}

}  // namespace

bool less_is_better(const std::string& output, float loss_weight) {
  return loss_weight != 0 || has_word_of_loss(output);
}

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
