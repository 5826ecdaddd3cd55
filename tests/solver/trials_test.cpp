// Trials of rates and of sizes of the batch: their results, and that nothing is changed by them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "solver/database_run.hpp"
#include "solver/rate_curve.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::HasSubstr;

TEST(RateCurveTest, RatesRiseByTheSameFactor) {
  const RateTrial trial{.from = 0.001, .to = 10, .steps = 5};
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(rate_of(trial, i), std::pow(10, i - 3), 1e-12 * i + 1e-15);
}

TEST(RateCurveTest, SmoothsWithoutABiasToZero) {
  const RateTrial trial{.steps = 10, .smoothing = 0.5};
  RateCurve curve;
  EXPECT_TRUE(add_step(trial, 4, curve));
  EXPECT_TRUE(add_step(trial, 1, curve));
  EXPECT_TRUE(add_step(trial, 3, curve));
  ASSERT_EQ(curve.steps.size(), 3U);
  EXPECT_DOUBLE_EQ(curve.steps[0].smoothed, 4);
  EXPECT_DOUBLE_EQ(curve.steps[1].smoothed, (0.25 * 4 + 0.5 * 1) / 0.75);
  EXPECT_DOUBLE_EQ(curve.steps[2].smoothed, (0.125 * 4 + 0.25 * 1 + 0.5 * 3) / 0.875);
  EXPECT_EQ(curve.steps[2].loss, 3);
}

TEST(RateCurveTest, EndsWhereTheLossLeaves) {
  const RateTrial trial{.steps = 10, .smoothing = 0, .stop = 4};
  RateCurve curve;
  EXPECT_TRUE(add_step(trial, 2, curve));
  EXPECT_TRUE(add_step(trial, 1, curve));
  EXPECT_TRUE(add_step(trial, 4, curve));
  EXPECT_FALSE(add_step(trial, 4.01, curve));
  EXPECT_EQ(curve.steps.size(), 4U);
  EXPECT_FALSE(add_step(trial, NAN, curve));
  EXPECT_EQ(curve.steps.size(), 4U);
}

TEST(RateCurveTest, ProposesTheSteepestAndATenthOfTheLeast) {
  RateCurve curve;
  // Falls fastest around step 3, is least at step 5, and falls again behind a rise.
  const double losses[] = {9, 8.9, 8, 5, 3, 2.5, 8, 3};
  for (int i = 0; i < 8; ++i) curve.steps.push_back({std::pow(10, i - 6), losses[i], losses[i]});
  const RateTrial plain{.smoothing = 0};
  suggest(plain, curve);
  ASSERT_TRUE(curve.steepest && curve.tenth_of_least);
  EXPECT_NEAR(*curve.steepest, 1e-3, 1e-12);
  EXPECT_NEAR(*curve.tenth_of_least, 0.01, 1e-12);
  for (RateCurve::Step& step : curve.steps) step.smoothed = step.rate;  // it only rises
  suggest(plain, curve);
  EXPECT_FALSE(curve.steepest || curve.tenth_of_least);
  // A fall among the first steps is noise that is not smoothed yet.
  for (size_t i = 0; i < 8; ++i) curve.steps[i].smoothed = i == 1 ? 1 : 9.0 + double(i);
  suggest({.smoothing = 0.8}, curve);
  EXPECT_FALSE(curve.steepest || curve.tenth_of_least);
}

class Trials : public test::DatabaseRun {
 protected:
  static constexpr const char* kSettings =
      "lr_policy: 'poly' power: 1 max_iter: 30 ema_decay: 0.9 average_loss: 3 type: 'Adam' "
      "snapshot_after_train: false ";

  /// Parameters behind some more iterations, and the losses of these.
  static std::vector<double> goes_on(Solver& solver) {
    std::vector<double> all;
    solver.on_iteration = [&](const IterationReport& report) {
      all.insert(all.end(), {report.loss, report.smoothed_loss, report.rate});
    };
    solver.step(7);
    const std::vector<double> values = test::params_of(solver.net());
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      found.push_back(entry.path().string());
    std::ranges::sort(found);
    return found;
  }
};

TEST_F(Trials, OfRatesLeaveNoTrace) {
  Context context = logging();
  Solver untouched(solver_param(kSettings), context), tried(solver_param(kSettings), context);
  for (Solver* solver : {&untouched, &tried}) solver->step(3);
  const auto before = files();
  int told = 0;
  tried.on_iteration = [&](const IterationReport&) { ++told; };
  const RateCurve curve = tried.try_rates({.from = 1e-5, .to = 10, .steps = 25});
  EXPECT_EQ(told, 0);
  EXPECT_GE(curve.steps.size(), 5U);
  EXPECT_LE(curve.steps.size(), 25U);
  EXPECT_NEAR(curve.steps[0].rate, 1e-5, 1e-18);
  EXPECT_EQ(tried.iteration(), 3);
  EXPECT_EQ(files(), before);
  EXPECT_EQ(goes_on(tried), goes_on(untouched));
}

// As a run whose policy gives these rates.
TEST_F(Trials, TrainWithTheRateOfTheStep) {
  Context context = logging();
  const std::string sgd = "lr_policy: 'fixed' max_iter: 5 snapshot_after_train: false ";
  SolverParameter param =
      solver_param(sgd, 40, "layer { name: 'sigmoid' type: 'Sigmoid' bottom: 'data' top: 'x' } ");
  param.set_momentum(0);
  Solver tried(param, context);
  const RateCurve curve = tried.try_rates({.from = 0.01, .to = 1, .steps = 3, .stop = 1e9});
  ASSERT_EQ(curve.steps.size(), 3U);
  std::vector<double> losses;
  SolverParameter steps = param;
  steps.set_lr_policy("multifixed");
  for (int i = 0; i < 3; ++i) {
    steps.add_stagelr(static_cast<float>(curve.steps[static_cast<size_t>(i)].rate));
    steps.add_stageiter(i);
  }
  Solver reference(steps, context);
  reference.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  reference.step(3);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(curve.steps[i].loss, losses[i], 1e-6) << i;
}

TEST_F(Trials, OfRatesEndWhereTheLossIsNotFinite) {
  Context context = logging();
  Solver solver(solver_param("lr_policy: 'fixed' max_iter: 5 snapshot_after_train: false", 4,
                             "layer { name: 'power' type: 'Power' bottom: 'data' top: 'x' "
                             "power_param { scale: 1e18 } } "),
                context);
  const std::vector<double> before = test::params_of(solver.net());
  const RateCurve curve = solver.try_rates({.from = 1e-3, .to = 1e30, .steps = 40, .stop = 1e300});
  EXPECT_TRUE(curve.diverged);
  EXPECT_LT(curve.steps.size(), 40U);
  EXPECT_EQ(test::params_of(solver.net()), before);
}

TEST_F(Trials, WrongArgumentsAreRefused) {
  Context context;
  Solver solver(solver_param(kSettings), context);
  expect_error([&] { solver.try_rates({.from = 0}); }, {"positive rate, not at 0"});
  expect_error([&] { solver.try_rates({.from = 1, .to = 0.5}); }, {"above the first one, 1"});
  expect_error([&] { solver.try_rates({.steps = 1}); }, {"at least 2 steps, not 1"});
  expect_error([&] { solver.try_rates({.smoothing = 1}); }, {"smoothing in [0, 1), not 1"});
  expect_error([&] { solver.try_rates({.stop = 1}); }, {"more than 1 times"});
  expect_error([&] { solver.try_batches({.most = 0}); }, {"largest batch to try is 0"});
  expect_error([&] { solver.try_batches({.iterations = 0}); }, {"over 0 iterations"});
}

TEST_F(Trials, OfBatchesFindTheLargestThatFitsAndLeaveNoTrace) {
  Context context = logging();
  Solver untouched(solver_param(kSettings), context), tried(solver_param(kSettings), context);
  for (Solver* solver : {&untouched, &tried}) solver->step(3);
  std::vector<int64_t> told;
  const auto all =
      tried.try_batches({.memory = size_t{1} << 30, .most = 20, .iterations = 1},
                        [&](const BatchResult& result) { told.push_back(result.batch); });
  ASSERT_GE(all.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i].batch, int64_t{1} << i);
    EXPECT_TRUE(all[i].fits);
    EXPECT_GT(all[i].seconds, 0);
    EXPECT_GT(all[i].images, 0);
    if (i > 0) {
      EXPECT_GT(all[i].planned, all[i - 1].planned);
    }
  }
  EXPECT_EQ(told.size(), all.size());
  // A limit between 4 and 8 records: the sizes between them are planned, too.
  const size_t limit = (all[2].planned + all[3].planned) / 2;
  const auto limited = tried.try_batches({.memory = limit, .most = 20, .iterations = 1});
  int64_t fits = 0, fails = 100;
  for (const BatchResult& result : limited) {
    EXPECT_EQ(result.fits, result.planned <= limit);
    EXPECT_EQ(result.fits, result.seconds > 0);
    (result.fits ? fits : fails) =
        result.fits ? std::max(fits, result.batch) : std::min(fails, result.batch);
  }
  EXPECT_GE(fits, 4);
  EXPECT_EQ(fails, fits + 1);
  EXPECT_EQ(source(tried).records_per_batch(), 4);
  EXPECT_EQ(goes_on(tried), goes_on(untouched));
}

TEST_F(Trials, OfBatchesNeedALayerThatReadsRecords) {
  SolverParameter param;
  parse_text_proto(
      "net_param { layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 "
      "dim: 3 } } } layer { name: 'loss' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' top: "
      "'loss' } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 snapshot_after_train: false",
      "solver.prototxt", param);
  Context context;
  Solver solver(param, context);
  expect_error([&] { solver.try_batches(); }, {"'in' (Input)", "reads no records by a batch_size"});
}

}  // namespace
}  // namespace crema
