// early_stop of the settings: a run ends when its tests become no better.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/solver.hpp"
#include "solver/test_output.hpp"

namespace crema {

class SolverState;

class EarlyStop {
 public:
  /// Without early_stop, nothing ever ends.
  explicit EarlyStop(const SolverParameter& param);

  /// Error unless it names an output of one value of a test net. Logs which value is better.
  void check(const std::vector<std::unique_ptr<Net>>& test_nets, const std::vector<int>& test_iter);
  const TestOutput& output() const { return output_; }
  /// Counts a test, unless one of this iteration was counted: resumed runs may repeat it.
  void observe(const TestReport& report);
  /// Whether `patience` tests in a row were no better.
  bool is_over() const { return !output_.name.empty() && tests_since_ >= patience_; }
  /// Why, in words.
  std::string reason() const;

  void save(SolverState& state) const;
  /// Continues from the state. If it is of another output, which is logged, or of none, the run
  /// counts from its next test on.
  void load(const SolverState& state, Context& context);

 private:
  TestOutput output_;
  int patience_ = 0;
  double min_delta_ = 0;
  std::optional<double> best_;
  int best_iteration_ = -1;
  int tests_since_ = 0;
  int last_test_ = -1;  // its iteration
};

}  // namespace crema
