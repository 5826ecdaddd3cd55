// Training in F16 on a device: the scale of the loss follows the gradients there, and nothing but
// them; the host does not wait for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/loss_scaler.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

/// `side`: more layers.
SolverParameter f16_solver(double loss_weight, const std::string& more,
                           const std::string& side = "") {
  SolverParameter param;
  parse_text_proto(
      text("net_param { precision: F16 "
           "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
           "shape { dim: 4 dim: 6 dim: 5 dim: 5 } shape { dim: 4 } "
           "data_filler { type: 'gaussian' } data_filler { value: 1 } } } "
           "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' inner_product_param { "
           "num_output: 8 weight_filler { type: 'xavier' } } } "
           "layer { name: 'r' type: 'PReLU' bottom: 'a' top: 'r' } "
           "layer { name: 'b' type: 'InnerProduct' bottom: 'r' top: 'b' inner_product_param { "
           "num_output: 4 weight_filler { type: 'xavier' } } } ",
           side,
           " layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'label' top: 'loss' "
           "loss_weight: ",
           loss_weight, " } } snapshot_after_train: false lr_policy: 'fixed' max_iter: 10000 ",
           more),
      "solver.prototxt", param);
  return param;
}

struct F16Solver {
  explicit F16Solver(const SolverParameter& param, SolverOptions options = {})
      : context({.device = {DeviceType::cuda, 0},
                 .threads = 1,
                 .logger = [this](Severity, const std::string& line) { log += line + "\n"; }}),
        solver(param, context, std::move(options)) {}

  FakeDevice& device() { return dynamic_cast<FakeDevice&>(context.backend()); }

  std::string log;
  Context context;
  Solver solver;
};

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

TEST(F16Training, AScaleThatOverflowsFallsWithoutAnUpdate) {
  for (const bool graphs : {true, false}) {
    F16Solver run(f16_solver(1000, "base_lr: 1e-6 "), {.graphs = graphs});
    const std::vector<double> before = params_of(run.solver.net());
    const double first = run.solver.loss_scale();
    run.solver.step(1);
    EXPECT_EQ(run.solver.loss_scale(), first / 2) << run.log;
    EXPECT_NE(run.log.find("Iteration 0: a gradient left the range of f16"), std::string::npos)
        << run.log;
    EXPECT_EQ(params_of(run.solver.net()), before);
    run.solver.step(20);
    const double settled = run.solver.loss_scale();
    EXPECT_EQ(run.solver.net().loss_scale(), settled);
    EXPECT_LT(settled, first / 8);
    EXPECT_GT(settled, 1);
    EXPECT_EQ(run.solver.iteration(), 21);
    EXPECT_NE(params_of(run.solver.net()), before);
    EXPECT_TRUE(all_finite(params_of(run.solver.net())));
    run.solver.step(5);
    EXPECT_EQ(run.solver.loss_scale(), settled);
  }
}

// An iteration is queued before the host knows what the one before has made of the scale.
TEST(F16Training, TheHostDoesNotWaitForTheScale) {
  const std::string settings = "base_lr: 0.001 momentum: 0.9 clip_gradients: 0.5 ";
  F16Solver run(f16_solver(1000, settings));
  std::vector<std::pair<int, double>> losses;
  run.solver.on_iteration = [&](const IterationReport& report) {
    losses.emplace_back(report.iteration, report.loss);
  };
  run.solver.step(4);
  run.device().clear();
  const int captures = run.device().captures;
  run.solver.step(16);
  EXPECT_EQ(run.device().count(FakeDevice::Step::Kind::stall), 1);
  EXPECT_LT(run.solver.loss_scale(), LossScaler::kFirst / 8);
  // No record depends on the scale.
  EXPECT_GT(captures, 0);
  EXPECT_LE(run.device().captures, captures + 1);
  EXPECT_EQ(losses.size(), 20U);
  for (const SolverOptions& options :
       {SolverOptions{.graphs = false}, SolverOptions{.queues_ahead = false}}) {
    F16Solver other(f16_solver(1000, settings), options);
    other.solver.step(20);
    EXPECT_EQ(other.solver.loss_scale(), run.solver.loss_scale());
    EXPECT_EQ(params_of(other.solver.net()), params_of(run.solver.net()));
  }
}

// The seed of such a loss is as large as the loss, and takes the scale of each iteration too.
TEST(F16Training, ALossOfSeveralElementsFollowsTheScale) {
  const std::string side =
      "layer { name: 'abs' type: 'AbsVal' bottom: 'b' top: 'abs' loss_weight: 0.25 } ";
  std::vector<std::vector<double>> results;
  for (const bool graphs : {true, false}) {
    F16Solver run(f16_solver(1000, "base_lr: 0.001 iter_size: 2 ", side), {.graphs = graphs});
    run.solver.step(20);
    EXPECT_LT(run.solver.loss_scale(), LossScaler::kFirst);
    if (graphs) {
      EXPECT_GT(run.device().launches, 20);
    }
    results.push_back(params_of(run.solver.net()));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(F16Training, TheScaleGrowsAgain) {
  F16Solver run(f16_solver(1, "base_lr: 1e-6 "));
  run.solver.step(3);
  run.solver.set_loss_scale(4);
  run.solver.step(LossScaler::kPatience - 1);
  EXPECT_EQ(run.solver.loss_scale(), 4);
  run.solver.step(1);
  EXPECT_EQ(run.solver.loss_scale(), 8);
}

// A scale that the program sets counts from the next iteration on, though one is queued.
TEST(F16Training, AHookMaySetTheScale) {
  F16Solver run(f16_solver(1000, "base_lr: 1e-6 "));
  int first = -1;
  run.solver.on_iteration = [&](const IterationReport& report) {
    if (report.iteration != 12) return;
    run.solver.set_loss_scale(65536);
    first = run.solver.iteration();
  };
  run.solver.step(14);
  EXPECT_EQ(first, 14);  // 13 was queued
  run.solver.step(1);
  EXPECT_EQ(run.solver.loss_scale(), 32768);
}

TEST(F16Training, AStepThatIsNotFiniteIsNoMatterOfTheScale) {
  F16Solver run(f16_solver(1, "base_lr: 1e38 momentum: 0.9 "));
  expect_error([&] { run.solver.step(20); }, {"finite"});
}

TEST(F16Training, ALossThatNoScaleMendsStopsWhereItIs) {
  // A gradient that leaves the range of f16 with a scale of 1.
  F16Solver run(f16_solver(1e8, "base_lr: 1e-12 "));
  const std::vector<double> before = params_of(run.solver.net());
  expect_error([&] { run.solver.step(100); }, {"finite"});
  EXPECT_EQ(run.solver.loss_scale(), 1);
  EXPECT_EQ(params_of(run.solver.net()), before);
  // One iteration for each halving.
  EXPECT_EQ(run.solver.iteration(), 16);
}

TEST(F16Training, ResumesWithItsScale) {
  const ScratchFolder folder;
  // At iteration 5 the scale still falls, at 15 it has been held for some updates.
  const SolverParameter param = f16_solver(
      1000, text("base_lr: 1e-6 momentum: 0.9 snapshot: 5 snapshot_prefix: '", folder / "s", "' "));
  F16Solver whole(param);
  whole.solver.step(24);
  for (const int from : {5, 15}) {
    F16Solver resumed(param);
    resumed.solver.step(2);
    resumed.solver.restore(text(folder / "s", "_iter_", from, ".solverstate"));
    resumed.solver.step(24 - from);
    EXPECT_EQ(resumed.solver.loss_scale(), whole.solver.loss_scale());
    EXPECT_EQ(params_of(resumed.solver.net()), params_of(whole.solver.net()));
  }
}

}  // namespace
}  // namespace crema::test
