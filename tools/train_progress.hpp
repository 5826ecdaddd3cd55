// What `crema train` says while it runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crema/solver.hpp"
#include "proto/run.pb.h"
#include "tools/sparkline.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {

/// Logs what the solver reports in lines that published log parsers read. On a terminal, the log's
/// files alone have these lines, and the terminal has a line for each test and one that redraws
/// itself.
class TrainProgress {
 public:
  /// Takes the hooks of the solver, which must outlive this object.
  TrainProgress(Solver& solver, const SolverParameter& param);

  /// Takes the tests of the part before of a run that goes on: what was the best so far, and the
  /// last values.
  void go_on(const std::vector<RunRecord>& before);
  /// What is said once at the end.
  void finish();
  /// Leaves the line that redraws itself.
  void end_line() { line_.end(); }

 private:
  /// An output of a test net that the line shows, with its best value so far.
  struct Watched {
    std::string name, label;
    bool less_is_better = false;
    std::optional<double> last, best;
  };

  void iteration(const IterationReport& report);
  void draw(const IterationReport& report);
  /// "epoch 2.4" behind so many iterations; "" where no layer counts its records.
  std::string epoch_text(int iterations) const;
  void log(const IterationReport& report);
  void test(const TestReport& report);
  /// Takes the report's value of the output that is watched. Returns whether it is better than one
  /// before.
  bool watch(const TestReport& report);
  /// What a value of a test says beside itself: its change since the test before, and whether it is
  /// the best.
  Field shown_output(const TestReport& report, const TestReport::Output& output, bool is_best);
  void show_test(const TestReport& report, bool is_best);

  /// Sums over iterations; the line's forget what is old, little by little.
  struct Sums {
    double seconds = 0, waited = 0, images = 0, iterations = 0, losses = 0;
    void add(const IterationReport& report);
    void fade(double part);
  };

  Solver& solver_;
  int display_, best_net_;
  std::string best_output_;
  bool shows_test_loss_;
  ProgressLine line_;
  Sparkline losses_;
  /// The values of the test before, by the name and index of the output and its net.
  std::map<std::string, double> before_;
  std::optional<Watched> watched_;
  bool knows_best_ = true;  // false: what the part before had is not known
  std::optional<IterationReport> last_;
  Sums all_, recent_, logged_;
};

}  // namespace crema::tools
