// Runs whose length or rates are given in epochs, percentages or hours: halves of them are the
// whole.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "model/snapshot_file.hpp"
#include "solver/database_run.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

class ResumedLength : public test::DatabaseRun {
 protected:
  static std::function<void(Solver&)> stopping_at(int iteration) {
    return [iteration](Solver& solver) {
      solver.poll = [&solver, iteration] {
        return solver.iteration() == iteration ? SolverAction::stop : SolverAction::none;
      };
    };
  }
  void remove_snapshots() const {
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("s_iter_")) fs::remove(entry.path());
  }
  /// The run of 2 N iterations, and the same in two halves.
  void expect_halves(const std::string& settings, int n) {
    SCOPED_TRACE(settings);
    const SolverParameter param = solver_param(settings);
    std::vector<double> rates, resumed_rates;
    const auto noting = [](std::vector<double>& to) {
      return [&to](Solver& solver) {
        solver.on_iteration = [&to](const IterationReport& report) { to.push_back(report.rate); };
      };
    };
    const Course straight = run(param, "", noting(rates));
    ASSERT_EQ(straight.iterations, 2 * n);
    ASSERT_EQ(straight.end, SolverEnd::finished);
    EXPECT_NE(rates.front(), rates.back()) << "the rate falls with the length of the run";
    remove_snapshots();
    ASSERT_EQ(run(param, "", stopping_at(n)).iterations, n);
    const Course resumed = run(param, state(n), noting(resumed_rates));
    EXPECT_EQ(resumed.iterations, 2 * n);
    EXPECT_EQ(resumed.end, SolverEnd::finished);
    EXPECT_EQ(resumed.values, straight.values);
    EXPECT_EQ(resumed_rates, std::vector<double>(rates.begin() + n, rates.end()));
  }
};

TEST_F(ResumedLength, InEpochs) {
  expect_halves(
      "max_epochs: 2 lr_policy: 'poly' power: 1 test_every_epochs: 0.35 test_iter: 2 ema_decay: "
      "0.5 ",
      10);
  // An epoch is 3.33 iterations.
  expect_halves("max_epochs: 2.4 iter_size: 3 lr_policy: 'poly' power: 2 ", 4);
}

TEST_F(ResumedLength, WithStepsInPercent) {
  // Before the half, at it, and behind it.
  expect_halves(
      "max_iter: 12 lr_policy: 'multistep' gamma: 0.5 stepvalue_percent: 25 stepvalue_percent: 50 "
      "stepvalue_percent: 75 ",
      6);
  expect_halves("max_epochs: 1.2 lr_policy: 'multistep' gamma: 0.5 stepvalue_percent: 70 ", 6);
}

TEST_F(ResumedLength, InHours) {
  const std::string settings =
      "max_iter: 16 lr_policy: 'poly' power: 1 max_hours: 100 test_iter: 2 test_interval: 3 ";
  const Course straight = run(solver_param(settings));
  remove_snapshots();
  // Time passes in the hook behind the seventh iteration, so that it ends there at the latest.
  SolverParameter cut = solver_param(settings);
  constexpr double kBudget = 0.5;  // seconds
  cut.set_max_hours(kBudget / 3600);
  const Course first = run(cut, "", [&](Solver& solver) {
    solver.on_iteration = [&solver](const IterationReport& report) {
      while (report.iteration == 6 && solver.seconds() < kBudget)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
  });
  EXPECT_EQ(first.end, SolverEnd::time_over);
  ASSERT_LE(first.iterations, 7);
  ASSERT_GT(first.iterations, 0);
  SolverState saved;
  read_solver_state(state(first.iterations), saved);
  EXPECT_GE(saved.seconds(), kBudget);
  // The time of the first part counts.
  EXPECT_EQ(run(cut, state(first.iterations)).iterations, first.iterations);
  const Course resumed = run(solver_param(settings), state(first.iterations));
  EXPECT_EQ(resumed.iterations, 16);
  EXPECT_EQ(resumed.values, straight.values);
}

}  // namespace
}  // namespace crema
