// on_nan: ROLLBACK: a run whose loss is not finite goes back to a snapshot with a lower rate.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "model/snapshot_file.hpp"
#include "solver/database_run.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kRollback =
    "lr_policy: 'poly' power: 1 max_iter: 12 snapshot: 3 on_nan: ROLLBACK test_iter: 2 "
    "test_interval: 2 average_loss: 3 ema_decay: 0.5 ";

class OnNan : public test::DatabaseRun {
 protected:
  static void spoil(Solver& solver) {
    solver.net().layer("ip").params()[0]->data.change<float>()[0] =
        std::numeric_limits<float>::quiet_NaN();
  }
  /// The iteration that reads the record with that number fails, as if it were broken.
  static std::function<void(Solver&)> broken_record(uint64_t record) {
    return [record](Solver& solver) {
      solver.before_iteration = [&solver, record] {
        if (source(solver).cursor() == RecordCursor{0, record}) spoil(solver);
      };
    };
  }
};

TEST_F(OnNan, StopsWithoutIt) {
  EXPECT_THROW(run(solver_param("lr_policy: 'fixed' max_iter: 12"), "", broken_record(20)), Error);
  expect_error(
      [&] {
        run(solver_param("lr_policy: 'fixed' max_iter: 12 on_nan: STOP"), "", broken_record(20));
      },
      {"the loss is nan at iteration 5", "layer 'ip'"});
  // Where there is a snapshot, the message names it.
  for (const bool takes : {false, true}) {
    const std::string settings =
        text("lr_policy: 'fixed' max_iter: 12 ", takes ? "snapshot: 2" : "");
    try {
      run(solver_param(settings), "", broken_record(20));
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_EQ(said.find("the snapshot of iteration 4 is untouched") != std::string::npos, takes)
          << said;
    }
  }
}

TEST_F(OnNan, GoesBackToTheSnapshotWithALowerRate) {
  std::vector<int> iterations;
  std::vector<double> rates;
  std::vector<uint64_t> records;
  const Course course = run(solver_param(kRollback), "", [&](Solver& solver) {
    solver.before_iteration = [&] {
      records.push_back(source(solver).cursor().position);
      if (source(solver).cursor() == RecordCursor{0, 20}) spoil(solver);
    };
    solver.on_iteration = [&](const IterationReport& report) {
      iterations.push_back(report.iteration);
      rates.push_back(report.rate);
    };
  });
  EXPECT_EQ(course.end, SolverEnd::finished);
  EXPECT_EQ(course.iterations, 12);
  EXPECT_EQ(iterations, (std::vector<int>{0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  for (size_t i = 0; i < rates.size(); ++i) {
    const double full = 0.02F * (1 - iterations[i] / 12.0);
    EXPECT_NEAR(rates[i], i < 5 ? full : full / 2, 1e-9) << i;
  }
  // The data go on behind the batch that failed, and no record is left out or comes twice.
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i], 4 * i % 40) << i;
  ASSERT_EQ(course.notes.size(), 1U);
  for (const char* part : {"iteration 5 failed", "the snapshot of iteration 3", "0.5 of the rate",
                           "(on_nan: 1 of 3 times)", "layer 'ip'"})
    EXPECT_THAT(course.notes[0], HasSubstr(part));
  EXPECT_THAT(warnings_, HasSubstr(course.notes[0]));
  EXPECT_TRUE(fs::exists(state(0))) << "a run that has none takes one at its begin";
  SolverState end;
  read_solver_state(state(12), end);
  EXPECT_EQ(end.rollbacks(), 1);
  EXPECT_EQ(end.rate_factor(), 0.5);
}

// Continued before the failure and behind it.
TEST_F(OnNan, AResumedRunEndsWithTheSameBits) {
  const SolverParameter param = solver_param(kRollback);
  const Course straight = run(param, "", broken_record(20));
  ASSERT_EQ(straight.notes.size(), 1U);
  for (const int from : {0, 3, 6, 9}) {
    // A state that the straight run wrote behind its failure says so; this one fails by itself.
    const Course resumed = run(param, state(from), broken_record(20));
    EXPECT_EQ(resumed.values, straight.values) << from;
    EXPECT_EQ(resumed.notes.size(), from < 3 ? 1U : 0U) << from;
  }
  EXPECT_THAT(log_, HasSubstr("went back 1 time (on_nan): all rates are times 0.5"));
}

// What a kill leaves right behind the second failure, of which the run went back before the
// snapshot of the first one.
TEST_F(OnNan, ARunThatIsKilledBehindItGoesOnAsItWouldHave) {
  const SolverParameter param = solver_param(kRollback);
  const auto twice = [](int& failures, bool kills) {
    return [&failures, kills](Solver& solver) {
      solver.before_iteration = [&solver, &failures, kills] {
        if (solver.iteration() == 8 && failures < 2) {
          ++failures;
          spoil(solver);
        } else if (kills && failures == 2) {
          throw std::runtime_error("killed");
        }
      };
    };
  };
  int failures = 0;
  const Course straight = run(param, "", twice(failures, false));
  ASSERT_EQ(straight.notes.size(), 2U);
  EXPECT_THAT(straight.notes[1], HasSubstr("the snapshot of iteration 3"));
  for (const bool within : {false, true}) {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().find("_iter_") != std::string::npos)
        fs::remove(entry.path());
    }
    failures = 0;
    std::string later;
    const auto prepare = [&](Solver& solver) {
      twice(failures, true)(solver);
      solver.on_note = [&](const std::string&) { later = test::read_file(state(6)); };
    };
    EXPECT_THROW(run(param, "", prepare), std::runtime_error);
    EXPECT_FALSE(fs::exists(state(6))) << "the run is before it";
    if (within) {
      // Killed before that state was removed.
      folder_.write("s_iter_6.solverstate", later);
      fs::last_write_time(state(6), fs::last_write_time(state(3)) - std::chrono::seconds(1));
    }
    Context context = logging();
    Solver solver(param, context);
    EXPECT_EQ(solver.resume(), state(3));
    ASSERT_TRUE(solver.solve());
    EXPECT_EQ(test::params_of(solver.net()), straight.values) << within;
  }
}

TEST_F(OnNan, GivesUpBehindSoManyTimes) {
  SolverParameter param = solver_param(kRollback + "rollback_most: 2 rollback_factor: 0.1");
  std::vector<std::string> notes;
  Context context = logging();
  Solver solver(param, context);
  solver.on_note = [&](const std::string& note) { notes.push_back(note); };
  solver.before_iteration = [&] {
    if (solver.iteration() >= 7) spoil(solver);
  };
  expect_error([&] { solver.solve(); },
               {"the loss is nan at iteration 7", "went back to a snapshot 2 times before",
                "rollback_most"});
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0], HasSubstr("the snapshot of iteration 6 and on with 0.1 of the rate"));
  // The second failure behind the same snapshot: that one may be the cause.
  EXPECT_THAT(notes[1], HasSubstr("the snapshot of iteration 3 and on with 0.01 of the rate"));
  EXPECT_EQ(solver.end(), SolverEnd::none);
}

TEST_F(OnNan, SnapshotsThatAreNotFiniteOrDamagedArePassedOver) {
  bool done = false;
  const Course course = run(solver_param(kRollback), "", [&](Solver& solver) {
    solver.on_iteration = [&](const IterationReport& report) {
      // Behind the update, so that the snapshot of iteration 9 has it.
      if (report.iteration == 8 && !done) {
        done = true;
        spoil(solver);
        fs::resize_file(state(6), 40);
      }
    };
  });
  ASSERT_EQ(course.notes.size(), 1U);
  EXPECT_THAT(course.notes[0], HasSubstr("the snapshot of iteration 3"));
  EXPECT_THAT(warnings_, HasSubstr("iter_9.solverstate' is passed over: it has values that are "
                                   "not finite"));
  EXPECT_THAT(warnings_, HasSubstr("iter_6.solverstate' is passed over: "));
  EXPECT_EQ(course.iterations, 12);
}

TEST_F(OnNan, WithoutASnapshotLeftItIsAnError) {
  Context context = logging();
  Solver solver(solver_param(kRollback), context);
  solver.before_iteration = [&] {
    if (solver.iteration() != 2) return;
    fs::remove(state(0));
    spoil(solver);
  };
  expect_error([&] { solver.solve(); },
               {"the loss is nan at iteration 2", "finds no snapshot of this run"});
}

TEST_F(OnNan, AnUpdateThatIsNotFiniteGoesBackToo) {
  bool done = false;
  const Course course = run(solver_param(kRollback), "", [&](Solver& solver) {
    solver.before_update = [&] {
      if (solver.iteration() != 4 || std::exchange(done, true)) return;
      solver.net().layer("ip").params()[0]->diff.change<float>()[0] =
          std::numeric_limits<float>::infinity();
    };
  });
  ASSERT_EQ(course.notes.size(), 1U);
  EXPECT_THAT(course.notes[0], HasSubstr("the update is not finite at iteration 4"));
  EXPECT_EQ(course.end, SolverEnd::finished);
}

}  // namespace
}  // namespace crema
