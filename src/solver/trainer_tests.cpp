// The tests of a training: when they run, and what they report.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/data_source.hpp"
#include "data/batches/in_step.hpp"
#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"
#include "solver/early_stop.hpp"
#include "solver/in_test_net.hpp"
#include "solver/named_sizes.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/test_sums.hpp"
#include "solver/trainer.hpp"
#include "solver/weight_average.hpp"

namespace crema {

/// Keeps, during a test, the positions of the data sources and what layers carried before it. A
/// snapshot within a test saves these, so that a resumed run repeats the test on the same data.
class Trainer::TestScope {
 public:
  explicit TestScope(Trainer& solver) : solver_(solver) {
    solver.before_test_ = std::make_unique<RecordCursors>(data_cursors(solver.training_state()));
  }
  ~TestScope() {
    if (!completed_) set_back();
    solver_.before_test_.reset();
  }
  TestScope(const TestScope&) = delete;
  TestScope& operator=(const TestScope&) = delete;

  /// Otherwise sources and layers are set back in the end.
  void complete() { completed_ = true; }

 private:
  void set_back() {
    try {
      set_data_cursors(solver_.training_state(), *solver_.before_test_);
    } catch (const Error& error) {
      solver_.context_.log(Severity::warning,
                           text("after the stopped test not all data sources are set back, and "
                                "training goes on with other batches: ",
                                error.what()));
    }
  }

  Trainer& solver_;
  bool completed_ = false;
};

bool Trainer::test_due() const {
  if (test_every_ > 0) {
    // How many tests are due by then. They do not drift where an interval is no whole number.
    const auto due = [&](int iteration) { return std::floor(iteration / test_every_ + 1e-9); };
    return iteration_ == 0 || due(iteration_) > due(iteration_ - 1);
  }
  return param_->test_interval() > 0 && iteration_ % param_->test_interval() == 0;
}

std::vector<TestReport> Trainer::test() {
  settle(0);
  stopped_behind_tests_ = false;
  std::vector<TestReport> reports;
  TestScope scope(*this);
  bring_together();
  const WeightAverage::InNet averaged(average_.get(), param_->ema_test());
  for (size_t n = 0; n < test_nets_.size(); ++n) {
    if (test_iterations_[n] == 0) continue;
    TestReport report;
    report.iteration = iteration_;
    report.net = static_cast<int>(n);
    TestSums sums(*test_nets_[n]);
    for (int batch = 0; batch < test_iterations_[n]; ++batch) {
      if (asked_to_stop()) return reports;
      begin_pass(batch);
      in_test_net(n, [&] { test_batch(report, sums); });
    }
    merge_tests(report, sums);
    report_outputs(sums, report);
    const std::optional<double> better = keeper_->better(report);
    report.is_best = better && keeper_->is_best(*better);
    early_stop_->observe(report);
    if (hooks_.on_test) hooks_.on_test(report);
    reports.push_back(std::move(report));
  }
  scope.complete();
  remember_test(reports);
  // Within the scope: the positions in the data before the test go into the snapshot.
  keep_best(reports);
  // Who decides by the result does not wait for another iteration.
  stopped_behind_tests_ = !reports.empty() && asked_to_stop();
  return reports;
}

void Trainer::warn_of_no_mean(const std::string& output, int net, size_t values, size_t others) {
  const TestOutput& stops = early_stop_->output();
  const bool is_best = output == param_->snapshot_best() && net == param_->snapshot_best_net();
  if (is_best || (output == stops.name && net == stops.net))
    throw Error(is_best ? "snapshot_best" : "early_stop", " '", output, "' has ", values,
                " values in one batch of test net ", net, " and ", others,
                " in another; name an output of one value");
  if (!without_mean_.insert({net, output}).second) return;
  context_.log(Severity::warning, text("'", output, "' of test net ", net, " has ", values,
                                       " values in one batch and ", others,
                                       " in another, so no mean of it is reported"));
}

void Trainer::test_batch(TestReport& report, TestSums& sums) {
  const auto n = static_cast<size_t>(report.net);
  Net& net = *test_nets_[n];
  const int batches = test_iterations_[n];
  sums.counted_once.next_batch();
  report.loss += net.forward() / batches;
  in_step_[n + 1].look();
  for (auto& [output, scores] : sums.detections) add_detections(net.output(output), scores);
  // An output behind rows whose number differs from batch to batch has no mean either.
  for (auto entry = sums.means.begin(); entry != sums.means.end();) {
    auto& [output, means] = *entry;
    const Tensor values = net.output(output);
    const auto count = static_cast<size_t>(values.count());
    if (sums.batches == 0) means.assign(count, 0);
    if (means.size() != count) {
      warn_of_no_mean(output, report.net, means.size(), count);
      entry = sums.means.erase(entry);
      continue;
    }
    for (size_t i = 0; i < count; ++i) means[i] += values.at(static_cast<int64_t>(i)) / batches;
    ++entry;
  }
  ++sums.batches;
}

void Trainer::report_outputs(const TestSums& sums, TestReport& report) {
  Net& net = *test_nets_[static_cast<size_t>(report.net)];
  const ApVersion version = ap_version(param_->ap_version());
  const bool names_classes = param_->show_per_class_result() && !sums.detections.empty();
  const LabelNames names = names_classes ? class_names(net) : LabelNames();
  for (const std::string& name : net.outputs()) {
    if (const auto found = sums.means.find(name); found != sums.means.end()) {
      for (size_t i = 0; i < found->second.size(); ++i)
        report.outputs.push_back(
            {name, static_cast<int>(i), found->second[i], net.loss_weight(name)});
    }
    const auto found = sums.detections.find(name);
    if (found == sums.detections.end()) continue;
    const std::optional<double> mean = found->second.mean(version);
    if (!mean) {
      context_.log(Severity::warning, text("'", name, "' of test net ", report.net,
                                           ": no batch had a true box; its mean average "
                                           "precision is given as 0"));
    }
    report.outputs.push_back({name, 0, mean.value_or(0), 0});
    if (!param_->show_per_class_result()) continue;
    for (const DetectionScores::Class& one : found->second.classes(version)) {
      report.classes.push_back(
          {name, one.label, one.average_precision, class_name(names, one.label)});
    }
  }
}

}  // namespace crema
