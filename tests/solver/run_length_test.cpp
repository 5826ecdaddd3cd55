// How long a run is: epochs, percentages, hours, and tests that become no better.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "model/binary_format.hpp"
#include "model/snapshot_file.hpp"
#include "solver/database_run.hpp"
#include "solver/epochs.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunLength : public test::DatabaseRun {
 protected:
  SolverState state_of(int iteration) const {
    SolverState read;
    read_solver_state(state(iteration), read);
    return read;
  }
  std::string error_of(const std::string& settings) const {
    Context context;
    const std::string path = folder_.write(
        "bad.prototxt", text("net: '", folder_ / "net.prototxt", "'\nbase_lr: 0.1\n", settings));
    write_text_proto_atomically(folder_ / "net.prototxt", solver_param("").net_param());
    try {
      Solver solver(path, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST(EpochLengths, AreRoundedUp) {
  const EpochLength length{"data", 1000, 100};
  EXPECT_EQ(iterations_of(3, length), 30);
  EXPECT_EQ(iterations_of(0.31, length), 4);
  EXPECT_EQ(iterations_of(0.3, length), 3);  // 0.3 * 10 is a little more than 3
  EXPECT_EQ(iterations_of(0.001, length), 1);
}

TEST_F(RunLength, EpochsStandForIterations) {
  // 40 records, 6 in a batch of 3 passes of 2: an epoch is 6.67 iterations.
  SolverParameter param = solver_param(
      "max_epochs: 2 iter_size: 3 test_every_epochs: 0.5 test_iter: 1 "
      "lr_policy: 'poly' power: 1 snapshot_after_train: false",
      2);
  Context context = logging();
  Solver solver(param, context);
  EXPECT_EQ(solver.max_iterations(), 14);
  EXPECT_NEAR(*solver.iterations_of_epoch(), 40.0 / 6, 1e-12);
  std::vector<int> tests;
  std::vector<double> rates;
  solver.on_test = [&](const TestReport& report) { tests.push_back(report.iteration); };
  solver.on_iteration = [&](const IterationReport& report) { rates.push_back(report.rate); };
  EXPECT_TRUE(solver.solve());
  EXPECT_EQ(solver.end(), SolverEnd::finished);
  // Behind 3.33, 6.67, 10 and 13.3 iterations: they do not drift.
  EXPECT_THAT(tests, ElementsAre(0, 4, 7, 10, 14));
  ASSERT_EQ(rates.size(), 14U);
  EXPECT_NEAR(rates[7], 0.02F * 0.5, 1e-9);  // poly over 14 iterations
  EXPECT_THAT(log_, HasSubstr("40 records of layer 'data', 6 in an iteration"));
  EXPECT_THAT(log_, HasSubstr("max_epochs 2 are 14"));
}

TEST_F(RunLength, EpochsNeedALayerThatCounts) {
  const std::string input =
      "net_param { layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 "
      "dim: 3 } } } layer { name: 'loss' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' top: "
      "'loss' } } base_lr: 0.1 lr_policy: 'fixed' snapshot_after_train: false ";
  for (const auto& [settings, instead] :
       {std::pair{"max_epochs: 2", "max_iter"},
        {"max_iter: 4 test_every_epochs: 1 test_iter: 1", "test_interval"}}) {
    SolverParameter param;
    parse_text_proto(input + settings, "solver.prototxt", param);
    Context context;
    expect_error([&] { Solver(param, context); },
                 {"needs a data layer of the training net", instead});
  }
}

TEST_F(RunLength, StepsMayBePartsOfTheRun) {
  for (const char* length : {"max_iter: 20", "max_epochs: 2"}) {
    Context context = logging();
    Solver solver(solver_param(text(length,
                                    " lr_policy: 'multistep' gamma: 0.1 "
                                    "stepvalue_percent: 50 stepvalue_percent: 77.4 "
                                    "snapshot_after_train: false")),
                  context);
    std::vector<double> rates;
    solver.on_iteration = [&](const IterationReport& report) { rates.push_back(report.rate); };
    solver.solve();
    ASSERT_EQ(rates.size(), 20U) << length;
    EXPECT_FLOAT_EQ(static_cast<float>(rates[9]), 0.02F);
    EXPECT_FLOAT_EQ(static_cast<float>(rates[10]), 0.002F);
    EXPECT_FLOAT_EQ(static_cast<float>(rates[14]), 0.002F);
    EXPECT_FLOAT_EQ(static_cast<float>(rates[15]), 0.0002F);  // 15.48, rounded
  }
}

TEST_F(RunLength, WrongNumbersNameTheirPlace) {
  const std::string fixed = "lr_policy: 'fixed'\n", steps = "lr_policy: 'multistep' gamma: 0.1\n";
  for (const auto& [settings, part] : std::vector<std::pair<std::string, std::string>>{
           {fixed + "max_epochs: 0", "max_epochs 0 must be positive"},
           {fixed + "max_epochs: nan", "max_epochs is nan"},
           {fixed + "max_epochs: 2 max_iter: 5", "both max_iter and max_epochs"},
           {fixed + "max_epochs: 1e12", "max_epochs 1e+12 would be"},
           {fixed + "test_every_epochs: -1", "test_every_epochs -1 must be positive"},
           {fixed + "test_every_epochs: 1 test_interval: 2", "both test_interval and"},
           {fixed + "max_hours: 0", "max_hours 0 must be positive"},
           {steps + "max_iter: 9 stepvalue_percent: 100", "must lie in (0, 100)"},
           {steps + "max_iter: 9 stepvalue_percent: 60 stepvalue_percent: 50", "must ascend"},
           {steps + "max_iter: 9 stepvalue_percent: 60 stepvalue: 5", "both stepvalue and"},
           {steps + "stepvalue_percent: 60", "needs max_iter or max_epochs"},
           {fixed + "early_stop { output: 'loss' }", "early_stop.patience 0 must be at least 1"},
           {fixed + "early_stop { output: 'loss' patience: 1 min_delta: -1 }", "min_delta -1"},
           {fixed + "early_stop { output: 'loss' patience: 1 }", "early_stop needs tests"},
           {fixed + "snapshot_best_count: 0", "snapshot_best_count 0 must be at least 1"},
           {fixed + "on_nan: ROLLBACK rollback_factor: 1", "rollback_factor 1 must lie in (0, 1)"},
           {fixed + "on_nan: ROLLBACK rollback_most: 0", "rollback_most 0 must be at least 1"}}) {
    const std::string error = error_of(settings);
    EXPECT_THAT(error, HasSubstr(part));
    // Line 3 has the policy, line 4 the field.
    EXPECT_THAT(error, HasSubstr("bad.prototxt:4")) << settings;
  }
}

TEST_F(RunLength, ASettingOfTheCallerTakesThePlaceOfTheOtherUnit) {
  Context context = logging();
  SolverOptions options;
  options.set = {"max_epochs=1"};
  Solver solver(solver_param("max_iter: 1000 lr_policy: 'fixed' snapshot_after_train: false"),
                context, options);
  EXPECT_EQ(solver.max_iterations(), 10);
  EXPECT_THAT(log_, HasSubstr("max_epochs=1 in place of max_iter"));
}

// No value is better than the first one by so much.
const char* const kNeverBetter =
    "lr_policy: 'fixed' max_iter: 20 test_iter: 2 test_interval: 2 early_stop { output: 'loss' "
    "patience: 3 min_delta: 100 } ";

TEST_F(RunLength, TestsThatBecomeNoBetterEndTheRun) {
  const Course course = run(solver_param(kNeverBetter));
  EXPECT_EQ(course.end, SolverEnd::early);
  EXPECT_EQ(course.iterations, 6);  // tests at 0, 2, 4, 6
  ASSERT_EQ(course.notes.size(), 1U);
  EXPECT_THAT(course.notes[0], HasSubstr("ends early, at iteration 6"));
  EXPECT_THAT(course.notes[0], HasSubstr("in 3 tests"));
  EXPECT_THAT(log_, HasSubstr("the run ends behind 3 tests in a row whose 'loss' is no less"));
  // The snapshot of the end is there. It goes on with more patience alone.
  EXPECT_EQ(state_of(6).early_stop().tests_since(), 3);
  EXPECT_EQ(run(solver_param(kNeverBetter), state(6)).iterations, 6);
  SolverParameter patient = solver_param(kNeverBetter);
  patient.mutable_early_stop()->set_patience(5);
  EXPECT_EQ(run(patient, state(6)).iterations, 10);
}

TEST_F(RunLength, ABetterTestBeginsTheCountAnew) {
  // The loss falls: each test is better by a little.
  SolverParameter param = solver_param(
      "lr_policy: 'fixed' max_iter: 12 test_iter: 10 test_interval: 2 early_stop { output: 'loss' "
      "patience: 2 }");
  std::vector<double> losses;
  const Course course = run(param, "", [&](Solver& solver) {
    solver.on_test = [&](const TestReport& report) { losses.push_back(report.loss); };
  });
  // By hand: when it has to end.
  double best = losses.at(0);
  int since = 0, end = 12;
  for (size_t i = 1; i < losses.size(); ++i) {
    since = losses[i] < best ? 0 : since + 1;
    best = std::min(best, losses[i]);
    if (since == 2) {
      end = static_cast<int>(2 * i);
      break;
    }
  }
  EXPECT_EQ(course.iterations, end);
  EXPECT_EQ(course.end, end < 12 ? SolverEnd::early : SolverEnd::finished);
}

TEST_F(RunLength, AResumedRunEndsEarlyAtTheSameTest) {
  SolverParameter param = solver_param(std::string(kNeverBetter) + "snapshot: 3");
  const Course straight = run(param);
  EXPECT_EQ(straight.iterations, 6);
  const Course resumed = run(param, state(3));
  EXPECT_EQ(resumed.iterations, straight.iterations);
  EXPECT_EQ(resumed.end, SolverEnd::early);
  EXPECT_EQ(resumed.values, straight.values);
}

TEST_F(RunLength, StepsAreNotEndedByTests) {
  Context context;
  Solver solver(solver_param(kNeverBetter), context);
  EXPECT_TRUE(solver.step(12));
  EXPECT_EQ(solver.iteration(), 12);
  EXPECT_EQ(solver.end(), SolverEnd::finished);
}

TEST_F(RunLength, EarlyStopNamesTheOutputsThatThereAre) {
  Context context;
  const std::string tests = "lr_policy: 'fixed' max_iter: 4 test_iter: 2 test_interval: 2 ";
  expect_error(
      [&] { Solver(solver_param(tests + "early_stop { output: 'top5' patience: 1 }"), context); },
      {"early_stop 'top5' is no output of test net 0", "its outputs are loss, accuracy"});
  expect_error([&] { Solver(solver_param(tests + "early_stop { patience: 1 }"), context); },
               {"early_stop names no output", "name one of loss, accuracy"});
  expect_error(
      [&] {
        Solver(solver_param(tests + "early_stop { output: 'loss' patience: 1 net: 1 }"), context);
      },
      {"is of test net 1, and the solver has 1"});
  // Without an output, it is that of snapshot_best.
  Context logs = logging();
  Solver(solver_param(tests + "snapshot_best: 'accuracy' early_stop { patience: 1 }"), logs);
  EXPECT_THAT(log_, HasSubstr("whose 'accuracy' is no greater"));
}

TEST_F(RunLength, HoursEndTheRunAsItsLastIterationDoes) {
  SolverParameter param = solver_param(
      "lr_policy: 'fixed' max_iter: 1000000 max_hours: 0.00001 test_iter: 1 test_interval: 1000000 "
      "test_initialization: false");
  int tests = 0;
  const Course course =
      run(param, "", [&](Solver& solver) { solver.on_test = [&](const TestReport&) { ++tests; }; });
  EXPECT_EQ(course.end, SolverEnd::time_over);
  EXPECT_GT(course.iterations, 0);
  EXPECT_LT(course.iterations, 1000000);
  EXPECT_EQ(tests, 1);  // at the end
  ASSERT_EQ(course.notes.size(), 1U);
  EXPECT_THAT(course.notes[0], HasSubstr("hours of max_hours are over"));
  const double before = state_of(course.iterations).seconds();
  EXPECT_GE(before, 0.036);

  // The hours of a resumed run are those of all its parts.
  const Course over = run(param, state(course.iterations));
  EXPECT_EQ(over.iterations, course.iterations);
  EXPECT_EQ(over.end, SolverEnd::time_over);
  param.set_max_hours(100);
  param.set_max_iter(course.iterations + 3);
  Context context;
  Solver more(param, context);
  more.restore(state(course.iterations));
  EXPECT_TRUE(more.solve());
  EXPECT_GT(more.seconds(), before);
  EXPECT_EQ(more.end(), SolverEnd::finished);
}

TEST_F(RunLength, StatesWithoutHoursAreTheSameFiles) {
  run(solver_param("lr_policy: 'fixed' max_iter: 2"));
  EXPECT_FALSE(state_of(2).has_seconds());
}

TEST_F(RunLength, TheBestOnesStay) {
  // The greatest losses are those of the first tests.
  const std::string settings =
      "lr_policy: 'fixed' snapshot: 2 snapshot_keep: 1 test_iter: 10 test_interval: 1 "
      "snapshot_best: 'loss' snapshot_best_is: GREATEST snapshot_best_count: 3 ";
  std::vector<std::pair<double, int>> tests;
  int bests = 0;
  const auto on_disk = [&] {
    std::vector<int> found;
    for (int i = 0; i <= 10; ++i) {
      if (std::filesystem::exists(state(i))) found.push_back(i);
    }
    return found;
  };
  run(solver_param(settings + "max_iter: 8"), "", [&](Solver& solver) {
    solver.on_test = [&](const TestReport& report) {
      for (const auto& output : report.outputs) {
        if (output.name == "loss") tests.emplace_back(-output.value, report.iteration);
      }
      bests += report.is_best ? 1 : 0;
    };
  });
  std::set<int> expected = {8};
  std::ranges::sort(tests);
  for (size_t i = 0; i < 3; ++i) expected.insert(tests[i].second);
  EXPECT_THAT(on_disk(), testing::ElementsAreArray(expected));
  EXPECT_GE(bests, 1);
  EXPECT_EQ(state_of(8).best_size(), 3);
  EXPECT_EQ(state_of(8).best(0).iteration(), tests[0].second);
  EXPECT_EQ(state_of(8).best_value(), -tests[0].first);

  // As a run that is resumed in the middle.
  const std::vector<int> straight = on_disk();
  for (const int i : straight) std::filesystem::remove(state(i));
  const auto none = on_disk();
  ASSERT_TRUE(none.empty());
  run(solver_param(settings + "max_iter: 4 test_at_end: false"));
  run(solver_param(settings + "max_iter: 8"), state(4));
  EXPECT_EQ(on_disk(), straight);
}

}  // namespace
}  // namespace crema
