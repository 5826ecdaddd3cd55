#include "solver/rate_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

RatePolicy policy(const std::string& text) {
  SolverParameter param;
  parse_text_proto("base_lr: 0.5 " + text, "solver.prototxt", param);
  return RatePolicy(param, param.momentum());
}

TEST(RatePolicy, FollowsTheFormulas) {
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'fixed'").rate(1000), 0.5);
  const auto step = policy("lr_policy: 'step' gamma: 0.5 stepsize: 10");
  EXPECT_DOUBLE_EQ(step.rate(9), 0.5);
  EXPECT_DOUBLE_EQ(step.rate(10), 0.25);
  EXPECT_DOUBLE_EQ(step.rate(35), 0.0625);
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'exp' gamma: 0.5").rate(3), 0.0625);
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'inv' gamma: 0.5 power: 2").rate(2), 0.5 / 4);
  const auto multistep = policy("lr_policy: 'multistep' gamma: 0.5 stepvalue: 5 stepvalue: 8");
  EXPECT_DOUBLE_EQ(multistep.rate(4), 0.5);
  EXPECT_DOUBLE_EQ(multistep.rate(5), 0.25);
  EXPECT_DOUBLE_EQ(multistep.rate(100), 0.125);
  const auto poly = policy("lr_policy: 'poly' power: 2 max_iter: 10");
  EXPECT_DOUBLE_EQ(poly.rate(5), 0.125);
  EXPECT_DOUBLE_EQ(poly.rate(10), 0);
  EXPECT_DOUBLE_EQ(poly.rate(11), 0);
  EXPECT_NEAR(policy("lr_policy: 'sigmoid' gamma: 0.5 stepsize: 4").rate(6),
              0.5 / (1 + std::exp(-1)), 1e-12);
}

TEST(RatePolicy, FallsAlongALineOrACosine) {
  const auto linear = policy("lr_policy: 'linear' min_lr: 0.1 max_iter: 8");
  EXPECT_DOUBLE_EQ(linear.rate(0), 0.5);
  EXPECT_NEAR(linear.rate(6), 0.2, 1e-8);
  EXPECT_NEAR(linear.rate(8), 0.1, 1e-8);
  EXPECT_NEAR(linear.rate(20), 0.1, 1e-8);
  const auto cosine = policy("lr_policy: 'cosine' max_iter: 12");
  EXPECT_DOUBLE_EQ(cosine.rate(0), 0.5);
  EXPECT_NEAR(cosine.rate(4), 0.375, 1e-12);
  EXPECT_NEAR(cosine.rate(6), 0.25, 1e-12);
  EXPECT_NEAR(cosine.rate(12), 0, 1e-12);
  // They begin where the warm-up ends.
  const auto warm = policy("lr_policy: 'cosine' max_iter: 16 warmup_iter: 4");
  EXPECT_DOUBLE_EQ(warm.rate(4), 0.5);
  EXPECT_NEAR(warm.rate(8), 0.375, 1e-12);
}

// As in forks, the policy itself counts from iteration 0.
TEST(RatePolicy, WarmsUpAnyPolicy) {
  const auto step =
      policy("lr_policy: 'step' gamma: 0.5 stepsize: 10 warmup_iter: 4 warmup_start_lr: 0.25");
  EXPECT_DOUBLE_EQ(step.rate(0), 0.25);
  EXPECT_DOUBLE_EQ(step.rate(2), 0.375);
  EXPECT_DOUBLE_EQ(step.rate(4), 0.5);
  EXPECT_DOUBLE_EQ(step.rate(10), 0.25);
  const auto rampup = policy("lr_policy: 'fixed' rampup_interval: 4 rampup_lr: 0.25");
  EXPECT_DOUBLE_EQ(rampup.rate(2), 0.25 + 0.25 / 4);
  EXPECT_DOUBLE_EQ(rampup.rate(4), 0.5);
}

// The lower limit is that of the policy: with min_lr 0.25, warm-ups were cut off below it.
TEST(RatePolicy, WarmsUpFromBelowMinLr) {
  for (const char* name : {"cosine", "linear", "poly' power: 1 #", "exp' gamma: 0.5 #"}) {
    const auto warm =
        policy(text("max_iter: 12 min_lr: 0.25 warmup_iter: 4 lr_policy: '", name, "'"));
    EXPECT_DOUBLE_EQ(warm.rate(0), 0) << name;
    EXPECT_DOUBLE_EQ(warm.rate(1), 0.125) << name;
    EXPECT_GE(warm.rate(4), 0.25) << name;
    EXPECT_DOUBLE_EQ(warm.rate(12), 0.25) << name;
  }
  const auto rampup =
      policy("lr_policy: 'exp' gamma: 0.5 min_lr: 0.25 rampup_interval: 4 rampup_lr: 0.125");
  EXPECT_DOUBLE_EQ(rampup.rate(0), 0.125);
  EXPECT_DOUBLE_EQ(rampup.rate(2), 0.125 + 0.375 / 4);
  EXPECT_DOUBLE_EQ(rampup.rate(4), 0.25);
}

TEST(RatePolicy, StaysAboveMinLr) {
  const auto exp = policy("lr_policy: 'exp' gamma: 0.5 min_lr: 0.125");
  EXPECT_DOUBLE_EQ(exp.rate(1), 0.25);
  EXPECT_DOUBLE_EQ(exp.rate(9), 0.125);
  const auto poly = policy("lr_policy: 'poly' power: 2 max_iter: 10 min_lr: 0.25");
  EXPECT_DOUBLE_EQ(poly.rate(5), 0.25 + 0.25 / 4);
  EXPECT_DOUBLE_EQ(poly.rate(10), 0.25);
}

// The numbers are those of torch.optim.lr_scheduler.OneCycleLR(max_lr=0.5, total_steps=20) of
// PyTorch 2, with cycled momentum from 0.95 to 0.85.
TEST(RatePolicy, OneCycleGivesTheRatesOfPyTorch) {
  const auto cycle = policy(
      "lr_policy: 'onecycle' max_iter: 20 momentum: 0.85 momentum_policy: 'onecycle' "
      "max_momentum: 0.95");
  for (const auto& [iteration, rate, momentum] :
       std::vector<std::tuple<int, double, double>>{{0, 0.02, 0.95},
                                                    {2, 0.18583592135, 0.915450849719},
                                                    {5, 0.5, 0.85},
                                                    {6, 0.493732003118, 0.851253604391},
                                                    {12, 0.250001, 0.9},
                                                    {18, 0.00626999688246, 0.948746395609},
                                                    {19, 2e-06, 0.95}}) {
    EXPECT_NEAR(cycle.rate(iteration), rate, 1e-7) << iteration;  // settings are f32
    EXPECT_NEAR(*cycle.momentum(iteration), momentum, 1e-7) << iteration;
  }
}

struct CyclePoint {
  int iteration;
  double rate, momentum;
};

// Likewise with three_phase=True, anneal_strategy="linear" or pct_start=0.25.
TEST(RatePolicy, OneCycleOfThreePhasesOrStraightArmsGivesTheRatesOfPyTorch) {
  const auto expect = [](const std::string& settings, const std::vector<CyclePoint>& points) {
    const auto cycle = policy(
        "lr_policy: 'onecycle' max_iter: 20 momentum: 0.85 momentum_policy: 'onecycle' "
        "max_momentum: 0.95 " +
        settings);
    for (const CyclePoint& point : points) {
      EXPECT_NEAR(cycle.rate(point.iteration), point.rate, 1e-7) << settings << point.iteration;
      EXPECT_NEAR(*cycle.momentum(point.iteration), point.momentum, 1e-7)
          << settings << point.iteration;
    }
  };
  expect("onecycle_three_phase: true", {{0, 0.02, 0.95},
                                        {1, 0.06583592135, 0.940450849719},
                                        {5, 0.5, 0.85},
                                        {6, 0.45416407865, 0.859549150281},
                                        {10, 0.02, 0.95},
                                        {11, 0.0193969865152, 0.95},
                                        {18, 0.000605013484762, 0.95},
                                        {19, 2e-06, 0.95}});
  expect("onecycle_anneal: LINEAR", {{0, 0.02, 0.95},
                                     {3, 0.308, 0.89},
                                     {5, 0.5, 0.85},
                                     {12, 0.250001, 0.9},
                                     {18, 0.0357161428571, 0.942857142857},
                                     {19, 2e-06, 0.95}});
  expect("onecycle_three_phase: true onecycle_anneal: LINEAR onecycle_rise: 0.25",
         {{1, 0.14, 0.925},
          {4, 0.5, 0.85},
          {7, 0.14, 0.925},
          {8, 0.02, 0.95},
          {9, 0.018182, 0.95},
          {19, 2e-06, 0.95}});
  expect(
      "onecycle_three_phase: true onecycle_rise: 0.5",
      {{9, 0.5, 0.85}, {17, 0.0344737710114, 0.946984631039}, {18, 0.02, 0.95}, {19, 2e-6, 0.95}});
}

// The greatest rate and the last one: those of the pages.
TEST(RatePolicy, OneCyclePeaksAtItsRiseOfTheIterationsLessOne) {
  const auto cycle = policy("lr_policy: 'onecycle' max_iter: 50");
  EXPECT_NEAR(cycle.rate(14), 0.5, 1e-12);
  EXPECT_LT(cycle.rate(13), cycle.rate(14));
  EXPECT_LT(cycle.rate(15), cycle.rate(14));
  EXPECT_NEAR(cycle.rate(49), 0.5 / 25 / 1e4, 1e-12);
}

// Those of CosineAnnealingWarmRestarts(T_0=3, T_mult=2, eta_min=0.125).
TEST(RatePolicy, CosineRestartsGivesTheRatesOfPyTorch) {
  const std::string settings =
      "lr_policy: 'cosine_restarts' restart_iter: 3 restart_mult: 2 min_lr: 0.125 ";
  const std::vector<double> expected = {0.5,
                                        0.40625,
                                        0.21875,
                                        0.5,
                                        0.47487976320958225,
                                        0.40625,
                                        0.3125,
                                        0.21875,
                                        0.15012023679041775,
                                        0.5,
                                        0.4936110924292003};
  const auto restarts = policy(settings), warm = policy(settings + "warmup_iter: 4");
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(restarts.rate(static_cast<int>(i)), expected[i], 1e-12) << i;
    // The periods begin behind a warm-up.
    EXPECT_NEAR(warm.rate(static_cast<int>(i) + 4), expected[i], 1e-12) << i;
  }
  EXPECT_DOUBLE_EQ(warm.rate(1), 0.125);
  EXPECT_NEAR(restarts.rate(20), 0.1313889075707997, 1e-12);
  EXPECT_DOUBLE_EQ(restarts.rate(21), 0.5);
  EXPECT_LE(restarts.rate(2147483647), 0.5);
  const auto equal = policy("lr_policy: 'cosine_restarts' restart_iter: 4");
  EXPECT_NEAR(equal.rate(9), 0.42677669529663687, 1e-12);
  EXPECT_NEAR(equal.rate(4000002), 0.25, 1e-12);
}

TEST(RatePolicy, PlateauLowersTheRateWhereTheLossStays) {
  auto plateau = policy("lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 3 plateau_winsize: 2");
  const double losses[] = {4, 3, 3, 3.5, 3, 3, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5};
  const double rates[] = {0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125};
  for (int i = 0; i < 12; ++i) {
    const double before = plateau.rate(i);
    EXPECT_EQ(plateau.observe(i, losses[i]), before != rates[i]) << i;
    EXPECT_DOUBLE_EQ(plateau.rate(i), rates[i]) << i;
  }
  EXPECT_EQ(plateau.steps_passed(11), 2);
  EXPECT_EQ(plateau.plateau().minimum, 2.5F);
  EXPECT_EQ(plateau.plateau().last_event, 8);
}

TEST(RatePolicy, MultifixedTakesTheRateOfTheStage) {
  const auto stages =
      policy("lr_policy: 'multifixed' stagelr: 0.25 stagelr: 0.125 stageiter: 5 stageiter: 8");
  EXPECT_DOUBLE_EQ(stages.rate(0), 0.25);
  EXPECT_DOUBLE_EQ(stages.rate(5), 0.25);
  EXPECT_DOUBLE_EQ(stages.rate(6), 0.125);
  EXPECT_DOUBLE_EQ(stages.rate(100), 0.125);
}

TEST(RatePolicy, MomentumAndDecayHaveCourses) {
  const auto fixed = policy("lr_policy: 'fixed' momentum: 0.5 weight_decay: 0.5");
  EXPECT_FALSE(fixed.momentum(3) || fixed.weight_decay(3));
  const auto poly = policy(
      "lr_policy: 'fixed' max_iter: 8 momentum: 0.5 momentum_policy: 'poly' max_momentum: 0.75 "
      "weight_decay: 0.25 weight_decay_policy: 'poly' max_weight_decay: 0.5 weight_decay_power: 2");
  EXPECT_DOUBLE_EQ(*poly.momentum(4), 0.625);
  EXPECT_DOUBLE_EQ(*poly.weight_decay(4), 0.25 + 0.25 / 4);
  const std::string opt = "lr_policy: 'fixed' momentum_policy: 'opt' ";
  EXPECT_NEAR(*policy(opt).momentum(0), std::pow(1 - std::sqrt(0.5) / 2, 2), 1e-12);
  EXPECT_DOUBLE_EQ(*policy(opt + "max_momentum: 0.25").momentum(0), 0.25);
  // In a warm-up from 0 the formula gives 1.
  EXPECT_DOUBLE_EQ(*policy(opt + "warmup_iter: 4").momentum(0), 0.9999);
  // As in the fork, decay rises from 0.
  const auto rising = policy(
      "lr_policy: 'fixed' max_iter: 8 weight_decay: 0.5 weight_decay_policy: 'poly' "
      "weight_decay_power: 2");
  EXPECT_DOUBLE_EQ(*rising.weight_decay(0), 0);
  EXPECT_DOUBLE_EQ(*rising.weight_decay(4), 0.125);
  EXPECT_DOUBLE_EQ(*rising.weight_decay(8), 0.5);
}

// The course starts from the momentum of the rule.
TEST(RatePolicy, MomentumStartsFromTheDefaultOfTheRule) {
  SolverParameter param;
  parse_text_proto(
      "base_lr: 0.5 lr_policy: 'fixed' max_iter: 8 type: 'AdamW' momentum_policy: 'poly' "
      "max_momentum: 0.98",
      "solver.prototxt", param);
  Context context;
  const UpdateRule rule(param, context);
  const RatePolicy course(param, rule.momentum());
  EXPECT_NEAR(*course.momentum(0), 0.9, 1e-12);
  EXPECT_NEAR(*course.momentum(4), 0.94, 1e-7);
}

TEST(RatePolicy, ALongPlateauDoesNotOverflow) {
  auto plateau = policy("lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 2147483647");
  EXPECT_FALSE(plateau.observe(10, 1));
  EXPECT_FALSE(plateau.observe(11, 2));
  EXPECT_DOUBLE_EQ(plateau.rate(11), 0.5);
}

// A rate of NaN is no rate of 0.
TEST(RatePolicy, RatesThatAreNoneAreRefused) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { policy(text); }, parts);
  };
  refuse("lr_policy: 'exp' gamma: -0.5", {"'exp'", "rate -0.25 at iteration 1", "gamma -0.5"});
  refuse("lr_policy: 'step' gamma: -0.5 stepsize: 10", {"rate -0.25 at iteration 10"});
  refuse("lr_policy: 'multistep' gamma: -0.5 stepvalue: 7", {"rate -0.25 at iteration 7"});
  refuse("lr_policy: 'plateau' gamma: -0.5 plateau_winsize: 7", {"negative rates", "gamma -0.5"});
  refuse("lr_policy: 'inv' gamma: -0.25 power: 0.75 max_iter: 9",
         {"rate nan at iteration 4", "gamma -0.25 or power 0.75"});
  refuse("lr_policy: 'inv' gamma: -0.25 power: 2 max_iter: 9", {"rate nan at iteration 4"});
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'inv' gamma: -0.25 power: 1 max_iter: 4").rate(2), 1);
  const auto growing = policy("lr_policy: 'exp' gamma: 1e10");
  expect_error([&] { growing.rate(100); }, {"rate inf at iteration 100"});
}

// A solver with max_iter 0, as in published folders, only tests its net.
TEST(RatePolicy, NeedsNoIterations) {
  for (const char* name : {"poly", "cosine", "linear"}) {
    EXPECT_TRUE(std::isfinite(policy(text("lr_policy: '", name, "' power: 1 max_iter: 0")).rate(0)))
        << name;
  }
}

TEST(RatePolicy, SaysWhatTheNewPoliciesMiss) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { policy(text); }, parts);
  };
  for (const char* name : {"cosine", "linear", "onecycle"})
    refuse(text("lr_policy: '", name, "'"), {name, "max_iter"});
  refuse("lr_policy: 'cosin'", {"did you mean 'cosine'?"});
  refuse("lr_policy: 'plateau' gamma: 0.1", {"plateau_winsize"});
  refuse("lr_policy: 'plateau' gamma: 0.1 plateau_winsize: 0", {"plateau_winsize, not 0"});
  refuse("lr_policy: 'plateau' plateau_winsize: 2", {"gamma"});
  refuse("lr_policy: 'multifixed'", {"stagelr"});
  refuse("lr_policy: 'multifixed' stagelr: 1", {"1 stagelr and 0 stageiter"});
  refuse("lr_policy: 'multifixed' stagelr: 1 stagelr: 1 stageiter: 4 stageiter: 2", {"ascend"});
  refuse("lr_policy: 'fixed' min_lr: 1", {"min_lr 1 is larger than base_lr 0.5"});
  refuse("lr_policy: 'fixed' warmup_iter: -1", {"warmup_iter -1"});
  refuse("lr_policy: 'fixed' warmup_iter: 2 warmup_start_lr: -1", {"-1", "must not be negative"});
  refuse("lr_policy: 'fixed' warmup_iter: 2 rampup_interval: 2", {"both", "rampup_interval"});
  refuse("lr_policy: 'fixed' warmup_iter: 9 max_iter: 9", {"warmup_iter 9", "max_iter 9"});
  refuse("lr_policy: 'onecycle' max_iter: 9 warmup_iter: 2", {"onecycle_rise"});
  refuse("lr_policy: 'onecycle' max_iter: 9 onecycle_rise: 1", {"onecycle_rise in (0, 1), not 1"});
  refuse("lr_policy: 'onecycle' max_iter: 9 onecycle_three_phase: true onecycle_rise: 0.6",
         {"onecycle_rise in (0, 0.5] with onecycle_three_phase, not 0.6"});
  refuse("lr_policy: 'cosine_restarts'", {"'cosine_restarts' needs restart_iter"});
  refuse("lr_policy: 'cosine_restarts' restart_iter: 0", {"a positive restart_iter, not 0"});
  refuse("lr_policy: 'cosine_restarts' restart_iter: -2", {"a positive restart_iter, not -2"});
  refuse("lr_policy: 'cosine_restarts' restart_iter: 2 restart_mult: 0",
         {"a restart_mult of at least 1, not 0"});
  refuse("lr_policy: 'cosine_restart'", {"did you mean 'cosine_restarts'?"});
  refuse("lr_policy: 'fixed' momentum_policy: 'pol'", {"momentum_policy 'pol'", "'poly'"});
  refuse("lr_policy: 'fixed' momentum_policy: 'poly'", {"max_iter"});
  refuse("lr_policy: 'fixed' momentum_policy: 'onecycle'", {"needs lr_policy 'onecycle'"});
  refuse("lr_policy: 'fixed' max_iter: 4 momentum_policy: 'poly' max_momentum: 1",
         {"max_momentum 1"});
  refuse("lr_policy: 'fixed' momentum_policy: 'opt' max_momentum: 1", {"max_momentum 1"});
  refuse("lr_policy: 'fixed' weight_decay_policy: 'step'", {"weight_decay_policy 'step'"});
}

TEST(RatePolicy, SaysWhatIsMissing) {
  expect_error([] { policy("lr_policy: 'poly' power: 1"); }, {"poly", "max_iter"});
  expect_error([] { policy("lr_policy: 'step' gamma: 0.1"); }, {"step", "stepsize"});
  expect_error([] { policy("lr_policy: 'inv' gamma: 0.1"); }, {"inv", "power"});
  expect_error([] { policy("lr_policy: 'multistep' gamma: 0.1"); }, {"stepvalue"});
  expect_error([] { policy("lr_policy: 'multistep' gamma: 0.1 stepvalue: -3"); }, {"stepvalue -3"});
  expect_error([] { policy("lr_policy: 'multistep' gamma: 0.1 stepvalue: 5 stepvalue: 3"); },
               {"ascend"});
  expect_error([] { policy("lr_policy: 'stepp'"); },
               {"'stepp'", "did you mean 'step'?", "sigmoid"});
  expect_error([] { policy(""); }, {"lr_policy"});
}

}  // namespace
}  // namespace crema
