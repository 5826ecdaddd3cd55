// Training on a device: when the host waits, what is recorded, and what a failure leaves behind. On
// a device that lives in host memory (support/fake_device.hpp).
#include "core/device_run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using Kind = FakeDevice::Step::Kind;
using test::params_of;
using test::ScratchFolder;

constexpr int kBatch = 4, kClasses = 4, kRecords = 40;

/// A solver on a device of its own, with what it logs.
struct DeviceSolver {
  DeviceSolver(const SolverParameter& param, SolverOptions options = {})
      : owned(std::make_unique<FakeDevice>()),
        device(owned.get()),
        context({.threads = 1,
                 .logger = [this](Severity, const std::string& line) { log += line + "\n"; }},
                std::move(owned)),
        solver(param, context, std::move(options)) {}

  std::unique_ptr<FakeDevice> owned;
  FakeDevice* device;
  std::string log;
  Context context;
  Solver solver;
};

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
    write(-1, 0, 1);
  }

  /// The records, of which one has another label and a factor on its pixels.
  void write(int bad, int label, float factor) {
    test::Records records;
    for (int i = 0; i < kRecords; ++i) {
      Datum datum;
      datum.set_channels(1);
      datum.set_height(2);
      datum.set_width(3);
      datum.set_label(i == bad ? label : i % kClasses);
      for (int k = 0; k < 6; ++k) {
        const float value = static_cast<float>((7 * i + 3 * k) % 11) / 11 - 0.5F;
        datum.add_float_data(i == bad ? value * factor : value);
      }
      char key[16];
      std::snprintf(key, sizeof key, "%08d", i);
      records.emplace_back(key, datum.SerializeAsString());
    }
    std::filesystem::remove_all(folder_ / "db");
    test::write_database(folder_ / "db", records);
  }

  SolverParameter param(const std::string& more, const std::string& loss = "",
                        const std::string& middle = "type: 'Dropout'") const {
    SolverParameter param;
    parse_text_proto(
        text("net_param { name: 'small' layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
             "data_param { source: '",
             folder_ / "db", "' batch_size: ", kBatch,
             " } } "
             "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' "
             "inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } } "
             "layer { name: 'prelu' type: 'PReLU' bottom: 'ip1' top: 'act' } "
             "layer { name: 'drop' bottom: 'act' top: 'drop' ",
             middle,
             " } "
             "layer { name: 'ip2' type: 'InnerProduct' bottom: 'drop' top: 'ip2' "
             "inner_product_param { num_output: ",
             kClasses,
             " weight_filler { type: 'xavier' } } } "
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' "
             "top: 'loss' ",
             loss,
             " } } base_lr: 0.1 momentum: 0.9 weight_decay: 0.01 lr_policy: 'inv' gamma: 0.1 "
             "power: 0.5 snapshot_after_train: false snapshot_prefix: '",
             folder_ / "s", "' ", more),
        "solver.prototxt", param);
    return param;
  }

  /// The parameters after some iterations.
  static std::vector<double> trained(const SolverParameter& param, int iterations,
                                     SolverOptions options = {}) {
    DeviceSolver run(param, std::move(options));
    run.solver.step(iterations);
    return params_of(run.solver.net());
  }

  ScratchFolder folder_;
};

TEST_F(DeviceTraining, WaitsOnlyWhereSomebodyLooks) {
  DeviceSolver run(param("display: 25 max_iter: 1000"));
  run.solver.step(10);
  run.device->clear();
  std::vector<IterationReport> told;
  run.solver.on_iteration = [&](const IterationReport& report) { told.push_back(report); };
  run.solver.step(100);
  // Iterations 25, 50, 75 and 100, and the last one of step().
  EXPECT_EQ(run.device->count(Kind::stall), 5);
  ASSERT_EQ(told.size(), 100U);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].iteration, static_cast<int>(10 + i));
    EXPECT_GT(told[i].loss, 0);
    EXPECT_EQ(told[i].images, kBatch);
  }
}

TEST_F(DeviceTraining, TheNextBatchIsUnderWayBeforeAnIterationIsDone) {
  DeviceSolver run(param("max_iter: 1000"));
  run.solver.step(5);
  run.device->clear();
  run.solver.step(20);
  // The report of an iteration is queued as a download behind it, and waited for behind that of the
  // next one: before that, images and labels of the next one are under way.
  int reports = 0, batches = 0;
  for (const FakeDevice::Step& step : run.device->steps) {
    batches += step.kind == Kind::upload;
    if (step.kind == Kind::stall) {
      EXPECT_EQ(reports, 20);
    }
    if (step.kind != Kind::download) continue;
    ++reports;
    EXPECT_EQ(batches, 2 * reports);
  }
  EXPECT_EQ(reports, 20);
}

TEST_F(DeviceTraining, ARecordGivesTheSameBits) {
  for (const std::string more : {"", "iter_size: 3 clip_gradients: 0.5 ",
                                 "type: 'Adam' momentum2: "
                                 "0.99 ",
                                 "type: 'LARS' ", "ema_decay: 0.9 "}) {
    SCOPED_TRACE(more);
    const SolverParameter solver = param(more + "max_iter: 1000");
    DeviceSolver run(solver);
    run.solver.step(12);
    if (solver.iter_size() == 1) {
      // The whole of each iteration but the first, which runs plainly.
      EXPECT_EQ(run.device->captures, 1);
      EXPECT_EQ(run.device->launches, 11);
    } else {
      EXPECT_GT(run.device->captures, 0);
      EXPECT_GT(run.device->launches, 12);
    }
    EXPECT_EQ(run.log.find("graphs leave out"), std::string::npos) << run.log;
    EXPECT_EQ(params_of(run.solver.net()), trained(solver, 12, {.graphs = false}));
  }
}

TEST_F(DeviceTraining, FollowsTheCpu) {
  const SolverParameter solver = param("max_iter: 1000 clip_gradients: 0.5 iter_size: 2");
  Context context({.threads = 1, .engine = "reference"});
  Solver on_cpu(solver, context);
  std::vector<double> cpu_losses, losses;
  on_cpu.on_iteration = [&](const IterationReport& report) { cpu_losses.push_back(report.loss); };
  on_cpu.step(30);
  DeviceSolver run(solver);
  run.solver.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  run.solver.step(30);
  ASSERT_EQ(losses.size(), cpu_losses.size());
  // With other masks of the dropout they would differ at once.
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], cpu_losses[i], 1e-5) << i;
  const std::vector<double> expected = params_of(on_cpu.net()), found = params_of(run.solver.net());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_F(DeviceTraining, CountsLabelsThatAreIgnored) {
  const std::string ignore = "loss_param { ignore_label: 2 }";
  const SolverParameter solver = param("max_iter: 1000", ignore);
  Context context({.threads = 1, .engine = "reference"});
  Solver on_cpu(solver, context);
  on_cpu.step(10);
  DeviceSolver run(solver);
  run.solver.step(4);
  run.device->clear();
  run.solver.step(6);
  EXPECT_EQ(run.device->count(Kind::stall), 1);
  const std::vector<double> expected = params_of(on_cpu.net()), found = params_of(run.solver.net());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_F(DeviceTraining, ABadLabelStopsTheUpdate) {
  const SolverParameter solver = param("max_iter: 1000");
  const std::vector<double> before = trained(solver, 5);
  write(22, 99, 1);
  for (const bool graphs : {true, false}) {
    DeviceSolver run(solver, {.graphs = graphs});
    std::vector<int> told;
    run.solver.on_iteration = [&](const IterationReport& r) { told.push_back(r.iteration); };
    expect_error([&] { run.solver.step(20); },
                 {"label 99 at position 2 of the batch", "layer 'loss'", "record '00000022'"});
    EXPECT_EQ(params_of(run.solver.net()), before);
    EXPECT_EQ(run.solver.iteration(), 5);
    EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(run.context.device_run().report().failure, DeviceFailure::none);
  }
}

// A caller may go on behind a failure: with the batch behind the one that failed, as on the CPU.
TEST_F(DeviceTraining, GoesOnBehindAFailureAsTheCpu) {
  for (const std::string middle : {"type: 'Dropout'", "type: 'BatchNorm'"}) {
    for (const std::string more : {"max_iter: 1000", "max_iter: 1000 iter_size: 3"}) {
      SCOPED_TRACE(middle + more);
      write(22, 99, 1);
      const SolverParameter solver = param(more, "", middle);
      const auto run = [](Solver& each, std::vector<double>& losses, std::string& what) {
        each.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
        try {
          each.step(20);
        } catch (const Error& error) {
          what = error.what();
        }
        losses.push_back(each.iteration());
        try {
          each.step(1);
          each.step(1);
        } catch (const Error& error) {
          what += error.what();
        }
      };
      std::vector<double> losses, expected;
      std::string what, expected_what;
      Context context({.threads = 1, .engine = "reference"});
      Solver on_cpu(solver, context);
      run(on_cpu, expected, expected_what);
      DeviceSolver on(solver);
      run(on.solver, losses, what);
      EXPECT_NE(expected_what.find("record '00000022'"), std::string::npos) << expected_what;
      EXPECT_EQ(what, expected_what);
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << i;
      const std::vector<double> before = params_of(on_cpu.net()),
                                found = params_of(on.solver.net());
      for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(found[i], before[i], 1e-4) << i;
      const auto stored = [](Solver& each) {
        std::vector<double> values;
        for (const auto& parameter : each.net().layer("drop").params())
          for (const float value : parameter->data.values<float>()) values.push_back(value);
        return values;
      };
      const std::vector<double> were = stored(on_cpu), are = stored(on.solver);
      ASSERT_EQ(are.size(), were.size());
      for (size_t i = 0; i < are.size(); ++i) EXPECT_NEAR(are[i], were[i], 1e-4) << i;
    }
  }
}

TEST_F(DeviceTraining, AHookMayAskForWhatWaits) {
  DeviceSolver run(param("max_iter: 1000 snapshot_format: BINARYPROTO"));
  std::vector<int> told, depths;
  int depth = 0;
  run.solver.on_iteration = [&](const IterationReport& report) {
    ++depth;
    told.push_back(report.iteration);
    depths.push_back(depth);
    if (report.iteration % 3 == 0) run.solver.snapshot();
    --depth;
  };
  run.solver.step(10);
  EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(depths, std::vector<int>(10, 1));
}

TEST_F(DeviceTraining, AHookMayRunANet) {
  const SolverParameter solver = param("max_iter: 1000");
  const std::vector<double> expected = trained(solver, 12);
  DeviceSolver run(solver);
  Net other(solver.net_param(), run.context, {.phase = Phase::test});
  std::vector<int> told;
  run.solver.on_iteration = [&](const IterationReport& report) {
    told.push_back(report.iteration);
    for (int i = 0; i < 5; ++i) other.forward();
  };
  run.solver.step(12);
  EXPECT_EQ(told.size(), 12U);
  EXPECT_EQ(params_of(run.solver.net()), expected);
}

// What is wrong with an iteration that trains is not told of by another net.
TEST_F(DeviceTraining, ANetLeavesFailuresOfOthersToThem) {
  const SolverParameter solver = param("max_iter: 1000");
  write(22, 99, 1);
  DeviceSolver failing(solver);
  Net beside(solver.net_param(), failing.context, {.phase = Phase::test});
  for (int i = 0; i < 3; ++i) beside.forward();
  failing.solver.on_iteration = [&](const IterationReport& report) {
    if (report.iteration == 4) beside.forward();
  };
  expect_error([&] { failing.solver.step(20); },
               {"label 99 at position 2 of the batch", "layer 'loss'", "record '00000022'"});
  EXPECT_EQ(failing.solver.iteration(), 5);
}

TEST_F(DeviceTraining, IterationsAreWaitedForWhereTheCallerAsks) {
  DeviceSolver run(param("max_iter: 1000"), {.queues_ahead = false});
  run.solver.on_iteration = [&](const IterationReport& report) {
    EXPECT_EQ(run.solver.iteration(), report.iteration + 1);
  };
  run.solver.step(10);
}

TEST_F(DeviceTraining, ALossThatIsNotFiniteStopsTheUpdate) {
  const SolverParameter solver = param("max_iter: 1000");
  const std::vector<double> before = trained(solver, 5);
  write(21, 1, std::numeric_limits<float>::infinity());
  std::string expected;
  try {
    Context context({.threads = 1, .engine = "reference"});
    Solver(solver, context).step(20);
  } catch (const Error& error) {
    expected = error.what();
  }
  for (const bool graphs : {true, false}) {
    DeviceSolver run(solver, {.graphs = graphs});
    std::string what;
    try {
      run.solver.step(20);
    } catch (const Error& error) {
      what = error.what();
    }
    EXPECT_EQ(what, expected);
    EXPECT_NE(what.find("record '00000021'"), std::string::npos) << what;
    EXPECT_EQ(params_of(run.solver.net()), before);
  }
}

TEST_F(DeviceTraining, AGradientThatIsNotFiniteStopsTheUpdate) {
  // The loss is finite, and the gradient of a scaled one is not.
  const SolverParameter solver = param("max_iter: 1000");
  DeviceSolver run(solver);
  run.solver.step(3);
  const std::vector<double> before = params_of(run.solver.net());
  run.solver.set_loss_scale(1e300);
  expect_error([&] { run.solver.step(4); }, {"the update is not finite at iteration 3"});
  EXPECT_EQ(params_of(run.solver.net()), before);
}

TEST_F(DeviceTraining, PlateauReadsEachLoss) {
  SolverParameter solver = param("max_iter: 1000 plateau_winsize: 3 plateau_winsize: 3");
  solver.set_lr_policy("plateau");
  Context context({.threads = 1, .engine = "reference"});
  Solver on_cpu(solver, context);
  DeviceSolver run(solver);
  on_cpu.step(20);
  run.solver.step(20);
  EXPECT_EQ(run.solver.rate(), on_cpu.rate());
}

TEST_F(DeviceTraining, ResumesBitForBit) {
  const SolverParameter solver = param("max_iter: 1000 snapshot: 4 average_loss: 3");
  DeviceSolver whole(solver);
  whole.solver.step(10);
  DeviceSolver resumed(solver);
  resumed.solver.restore(text(folder_ / "s", "_iter_4.solverstate"));
  resumed.solver.step(6);
  EXPECT_EQ(params_of(resumed.solver.net()), params_of(whole.solver.net()));
}

// Nothing is queued beside the record of an iteration but the batch, the numbers of the update and
// the report.
TEST_F(DeviceTraining, AnIterationIsOneRecord) {
  DeviceSolver run(param("max_iter: 1000 clip_gradients: 0.5 ema_decay: 0.9"));
  run.solver.step(5);
  run.device->clear();
  const int launches = run.device->launches;
  run.solver.step(10);
  EXPECT_EQ(run.device->launches, launches + 10);
  EXPECT_EQ(run.device->count(Kind::graph), 10);
  EXPECT_EQ(run.device->count(Kind::upload), 20);
  EXPECT_EQ(run.device->count(Kind::download), 10);
  // Images and labels that have arrived go to their places.
  EXPECT_EQ(run.device->count(Kind::work), 20);
}

// A record has the number of parameters that learn in it.
TEST_F(DeviceTraining, RatesThatTheProgramChangesReachARecord) {
  const SolverParameter solver = param("max_iter: 1000");
  std::vector<std::vector<double>> results;
  for (const bool graphs : {true, false}) {
    DeviceSolver run(solver, {.graphs = graphs});
    run.solver.step(6);
    run.solver.net().layer("ip1").params()[0]->lr_mult = 0;
    run.solver.step(6);
    run.solver.net().layer("ip1").params()[0]->lr_mult = 2;
    run.solver.step(6);
    results.push_back(params_of(run.solver.net()));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(DeviceTraining, WhereNothingLearnsNoRecordChangesAnything) {
  const SolverParameter solver = param("max_iter: 1000");
  std::vector<std::vector<double>> results;
  for (const bool graphs : {true, false}) {
    DeviceSolver run(solver, {.graphs = graphs});
    run.solver.step(6);
    const std::vector<double> before = params_of(run.solver.net());
    const auto set_rates = [&](float rate) {
      for (Layer* layer : run.solver.net().layers()) {
        for (const auto& parameter : layer->params()) parameter->lr_mult = rate;
      }
    };
    set_rates(0);
    run.solver.step(6);
    EXPECT_EQ(params_of(run.solver.net()), before);
    set_rates(1);
    run.solver.step(6);
    EXPECT_NE(params_of(run.solver.net()), before);
    results.push_back(params_of(run.solver.net()));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(DeviceTraining, AnAverageThatStartsAgainDoesSoBesideARecord) {
  DeviceSolver without(param("max_iter: 1000"));
  without.solver.step(3);
  const std::string state = without.solver.snapshot();
  std::vector<std::vector<double>> averages;
  for (const bool graphs : {true, false}) {
    DeviceSolver run(param("max_iter: 1000 ema_decay: 0.9"), {.graphs = graphs});
    run.solver.step(6);
    run.solver.restore(state);
    run.solver.step(6);
    run.solver.snapshot();
    run.solver.net().load_weights(text(folder_ / "s", "_iter_9_ema.caffemodel"));
    averages.push_back(params_of(run.solver.net()));
  }
  EXPECT_EQ(averages[0], averages[1]);
}

TEST_F(DeviceTraining, WhatKeepsTheUpdateOutOfRecordsIsSaid) {
  DeviceSolver run(param("max_iter: 1000 iter_size: 2"));
  EXPECT_NE(run.log.find("the update of the parameters is no part of CUDA graphs: iter_size is 2"),
            std::string::npos)
      << run.log;
}

TEST_F(DeviceTraining, WeightsThatTheHostChangesReachARecord) {
  const SolverParameter solver = param("max_iter: 1000");
  std::vector<std::vector<double>> results;
  for (const bool graphs : {true, false}) {
    DeviceSolver run(solver, {.graphs = graphs});
    run.solver.step(6);
    Tensor& weights = run.solver.net().layer("ip1").params()[0]->data;
    weights.change<float>()[3] = 0.25F;
    run.solver.step(6);
    results.push_back(params_of(run.solver.net()));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace crema
