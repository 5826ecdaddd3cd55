#include "solver/early_stop.hpp"

#include <cmath>

#include "core/counted.hpp"
#include "proto/solver.pb.h"

namespace crema {

EarlyStop::EarlyStop(const SolverParameter& param) {
  if (!param.has_early_stop()) return;
  const EarlyStopParameter& own = param.early_stop();
  output_ = own.has_output()
                ? TestOutput{"early_stop", "its net", own.output(), own.net(), own.best_is(), false}
                : TestOutput{"early_stop, which takes snapshot_best,",
                             "snapshot_best_net",
                             param.snapshot_best(),
                             param.snapshot_best_net(),
                             param.snapshot_best_is(),
                             false};
  patience_ = own.patience();
  min_delta_ = own.min_delta();
}

void EarlyStop::check(const std::vector<std::unique_ptr<Net>>& test_nets,
                      const std::vector<int>& test_iter) {
  if (patience_ == 0) return;
  if (output_.name.empty()) {
    std::vector<std::string> outputs;
    for (const auto& net : test_nets) {
      for (const std::string& output : net->outputs()) outputs.push_back(output);
    }
    throw Error("early_stop names no output of a test net; ",
                outputs.empty() ? "the solver has no test net: add test_iter and test_interval"
                                : text("name one of ", joined(outputs)));
  }
  output_.check(test_nets, test_iter);
  test_nets.front()->context().log(
      Severity::info,
      text("early_stop: the run ends behind ", counted(patience_, "test"), " in a row whose '",
           output_.name, "' is no ", output_.is_least ? "less" : "greater",
           " than the best before them", min_delta_ > 0 ? text(" by more than ", min_delta_) : ""));
}

void EarlyStop::observe(const TestReport& report) {
  if (output_.name.empty() || report.net != output_.net || report.iteration <= last_test_) return;
  last_test_ = report.iteration;
  const std::optional<double> value = output_.value_in(report);
  const double margin = output_.is_least ? -min_delta_ : min_delta_;
  const bool is_better =
      value && std::isfinite(*value) && (!best_ || output_.is_better(*value, *best_ + margin));
  if (!is_better) {
    ++tests_since_;
    return;
  }
  best_ = value;
  best_iteration_ = report.iteration;
  tests_since_ = 0;
}

std::string EarlyStop::reason() const {
  const std::string behind = counted(tests_since_, "test");
  if (!best_) return text("'", output_.name, "' was not finite in ", behind);
  return text("'", output_.name, "' became no better than ", *best_, " of iteration ",
              best_iteration_, " in ", behind);
}

void EarlyStop::save(SolverState& state) const {
  if (output_.name.empty()) return;
  SolverState::EarlyStop& saved = *state.mutable_early_stop();
  saved.set_output(output_.name);
  saved.set_net(output_.net);
  saved.set_is_least(output_.is_least);
  if (best_) {
    saved.mutable_best()->set_iteration(best_iteration_);
    saved.mutable_best()->set_value(*best_);
  }
  saved.set_tests_since(tests_since_);
  saved.set_last_test(last_test_);
}

void EarlyStop::load(const SolverState& state, Context& context) {
  best_.reset();
  best_iteration_ = last_test_ = -1;
  tests_since_ = 0;
  if (output_.name.empty() || !state.has_early_stop()) return;
  const SolverState::EarlyStop& saved = state.early_stop();
  if (saved.output() != output_.name || saved.net() != output_.net ||
      saved.is_least() != output_.is_least) {
    context.log(Severity::info,
                text("early_stop of the snapshot compared '", saved.output(), "' of test net ",
                     saved.net(), "; this run compares another value, and begins anew with it"));
    return;
  }
  if (saved.has_best()) {
    best_ = saved.best().value();
    best_iteration_ = saved.best().iteration();
  }
  tests_since_ = saved.tests_since();
  last_test_ = saved.last_test();
}

}  // namespace crema
