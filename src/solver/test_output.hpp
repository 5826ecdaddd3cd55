// An output of a test net that a setting names, to compare tests by it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/solver.hpp"

namespace crema {

struct TestOutput {
  std::string setting;      // that names it, such as "snapshot_best"
  std::string net_setting;  // that names the net
  std::string name;         // "": none
  int net = 0;
  int best_is = 0;        // SolverParameter::Best
  bool is_least = false;  // the least value is the best; set by check()

  /// Error unless it is an output of one value of a test net that is run. `test_iter`: batches of
  /// each.
  void check(const std::vector<std::unique_ptr<Net>>& test_nets, const std::vector<int>& test_iter);
  /// Its value; none in reports of other nets.
  std::optional<double> value_in(const TestReport& report) const;
  bool is_better(double value, double than) const { return is_least ? value < than : value > than; }
};

}  // namespace crema
