// Training: the update against its formula, resume bit for bit, snapshots, and what is refused.
#include "crema/solver.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "core/parallel.hpp"
#include "crema/parameter_arena.hpp"
#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::fill_inputs;
using test::params_of;

const std::string kNet = R"(
net_param { name: "tiny"
  layer { name: "data" type: "Input" top: "data" top: "label"
          input_param { shape { dim: 4 dim: 2 dim: 8 dim: 8 } shape { dim: 4 } } }
  layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
          convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
  layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
  layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" }
  layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" } }
)";
const std::string kSgd =
    "base_lr: 0.1 lr_policy: 'inv' gamma: 0.01 power: 0.75 momentum: 0.9 weight_decay: 0.001 ";

SolverParameter solver_param(const std::string& text) {
  SolverParameter param;
  parse_text_proto(text, "solver.prototxt", param);
  return param;
}

class SolverTest : public ::testing::Test {
 protected:
  SolverTest() {
    folder_ = fs::path(::testing::TempDir()) / ("crema_solver_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~SolverTest() override { fs::remove_all(folder_); }

  std::string prefix() const { return (folder_ / "snap").string(); }
  std::string with_prefix() const { return "snapshot_prefix: '" + prefix() + "' "; }

  fs::path folder_;
};

TEST_F(SolverTest, MovesParametersByTheSgdFormula) {
  Context context({.engine = "reference"});
  Solver solver(solver_param(kNet + "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.5 "
                                    "weight_decay: 0.01 max_iter: 2 snapshot_after_train: false"),
                context);
  Net& net = solver.net();
  fill_inputs(net);
  const std::vector<double> w0 = params_of(net);
  net.clear_gradients();
  net.forward();
  net.backward();
  const std::vector<double> g = test::gradients_of(net);
  solver.step(1);
  const std::vector<double> w1 = params_of(net);
  for (size_t i = 0; i < w0.size(); ++i) {
    ASSERT_NEAR(w1[i], w0[i] - 0.1 * (g[i] + 0.01 * w0[i]), 1e-6) << i;
  }
}

size_t threads_of_process() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : fs::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST_F(SolverTest, RunsOnTheThreadsOfItsContext) {
  const SolverParameter param = solver_param(R"(net_param {
  layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 400 } } }
  layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
          inner_product_param { num_output: 400 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "ip" top: "loss" } }
)" + kSgd + "clip_gradients: 1 snapshot_after_train: false");
  // Each thread that opens parallel regions makes itself a team.
  std::thread caller([&] {
    const ThreadScope process(4);
    Context context({.threads = 1, .engine = "reference"});
    const size_t before = threads_of_process();
    Solver(param, context).step(2);
    EXPECT_EQ(threads_of_process(), before);
  });
  caller.join();
}

TEST_F(SolverTest, ResumesBitForBit) {
  const SolverParameter param =
      solver_param(kNet + kSgd + "max_iter: 20 snapshot_after_train: true " + with_prefix());
  std::vector<double> straight, resumed;
  std::string state;
  {
    Context context;
    Solver solver(param, context);
    fill_inputs(solver.net());
    solver.step(10);
    state = solver.snapshot();
    solver.step(10);
    straight = params_of(solver.net());
  }
  {
    Context context({.seed = 99});
    Solver solver(param, context);
    fill_inputs(solver.net());
    solver.restore(state);
    EXPECT_EQ(solver.iteration(), 10);
    solver.step(10);
    resumed = params_of(solver.net());
  }
  EXPECT_EQ(straight, resumed);
}

TEST_F(SolverTest, IterSizeAveragesGradients) {
  // Without dropout each pass has the same gradient, so any iter_size gives the same run.
  std::string plain = kNet;
  const std::string drop =
      "layer { name: \"drop\" type: \"Dropout\" bottom: \"conv\" top: \"conv\" }";
  plain.erase(plain.find(drop), drop.size());
  auto train = [&](const std::string& more) {
    Context context({.engine = "reference"});
    Solver solver(solver_param(plain + kSgd + "max_iter: 5 snapshot_after_train: false " + more),
                  context);
    fill_inputs(solver.net());
    solver.step(5);
    return params_of(solver.net());
  };
  const auto once = train(""), thrice = train("iter_size: 3");
  for (size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(once[i], thrice[i], 1e-5);
}

TEST_F(SolverTest, SnapshotsAtTheirIterationsAndAtTheEnd) {
  Context context;
  Solver solver(solver_param(kNet + kSgd + "max_iter: 7 snapshot: 3 " + with_prefix()), context);
  fill_inputs(solver.net());
  std::vector<std::string> written;
  solver.on_snapshot = [&](const std::string& path) { written.push_back(path); };
  EXPECT_TRUE(solver.solve());
  EXPECT_EQ(written, (std::vector<std::string>{prefix() + "_iter_3.solverstate",
                                               prefix() + "_iter_6.solverstate",
                                               prefix() + "_iter_7.solverstate"}));
  for (const auto& path : written) {
    EXPECT_TRUE(fs::exists(path));
    EXPECT_TRUE(fs::exists(fs::path(path).replace_extension(".caffemodel")));
  }
}

TEST_F(SolverTest, StopsWhenAskedAndKeepsItsState) {
  Context context;
  Solver solver(solver_param(kNet + kSgd + "max_iter: 100 " + with_prefix()), context);
  fill_inputs(solver.net());
  solver.poll = [&] { return solver.iteration() == 4 ? SolverAction::stop : SolverAction::none; };
  EXPECT_FALSE(solver.solve());
  EXPECT_EQ(solver.iteration(), 4);
  EXPECT_TRUE(fs::exists(prefix() + "_iter_4.solverstate"));
}

// Asked for by a signal, a snapshot is taken also where the solver takes none by itself.
TEST_F(SolverTest, SnapshotsWhenAsked) {
  Context context;
  Solver solver(
      solver_param(kNet + kSgd + "max_iter: 4 snapshot_after_train: false " + with_prefix()),
      context);
  fill_inputs(solver.net());
  solver.poll = [&] {
    return solver.iteration() == 2 ? SolverAction::snapshot : SolverAction::none;
  };
  EXPECT_TRUE(solver.solve());
  EXPECT_TRUE(fs::exists(prefix() + "_iter_2.solverstate"));
  EXPECT_FALSE(fs::exists(prefix() + "_iter_4.solverstate"));
}

class SolverTestWithTestNet : public SolverTest {
 protected:
  SolverTestWithTestNet() {
    const std::string digits = (folder_ / "db").string();
    test::write_counting_database(digits, 7);
    text_ = R"(net_param { name: "counting"
  layer { name: "data" type: "Data" top: "data" top: "label"
          data_param { source: ")" +
            digits + R"(" backend: LMDB batch_size: 2 } transform_param { scale: 0.1 } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 7 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" } }
base_lr: 0.01 lr_policy: 'fixed' max_iter: 4 test_iter: 3 test_interval: 2 )" +
            with_prefix();
  }

  /// Trains on to the end. Returns the losses of the tests by iteration.
  static std::map<int, double> solve(Solver& solver) {
    std::map<int, double> losses;
    solver.on_test = [&](const TestReport& report) { losses[report.iteration] = report.loss; };
    EXPECT_TRUE(solver.solve());
    return losses;
  }

  std::string text_;
};

// A test of hours must not make anybody wait: it is left, and run anew on its data by whoever
// continues, in this process or from the snapshot.
TEST_F(SolverTestWithTestNet, StopsWithinATest) {
  const SolverParameter param = solver_param(text_);
  Context context;
  Solver straight(param, context);
  const auto expected = solve(straight);
  ASSERT_EQ(expected.size(), 3U);

  Solver stopped(param, context);
  std::vector<int> tested;
  stopped.on_test = [&](const TestReport& report) { tested.push_back(report.iteration); };
  // At iteration 2: before the iteration, before the test's first batch, before its second.
  int asked = 0;
  stopped.poll = [&] {
    return stopped.iteration() == 2 && ++asked == 3 ? SolverAction::stop : SolverAction::none;
  };
  EXPECT_FALSE(stopped.solve());
  EXPECT_EQ(stopped.iteration(), 2);
  EXPECT_EQ(tested, std::vector<int>{0});
  stopped.poll = nullptr;
  const auto later = solve(stopped);
  EXPECT_EQ(later, (std::map<int, double>{{2, expected.at(2)}, {4, expected.at(4)}}));

  Context other;
  Solver resumed(param, other);
  resumed.restore(prefix() + "_iter_2.solverstate");
  EXPECT_EQ(solve(resumed), later);
}

TEST_F(SolverTestWithTestNet, SnapshotsWithinATestGoOn) {
  const SolverParameter param = solver_param(text_);
  Context context;
  Solver straight(param, context);
  const auto expected = solve(straight);

  Solver solver(param, context);
  int asked = 0;
  solver.poll = [&] {
    return solver.iteration() == 2 && ++asked == 3 ? SolverAction::snapshot : SolverAction::none;
  };
  EXPECT_EQ(solve(solver), expected);
  Solver resumed(param, context);
  resumed.restore(prefix() + "_iter_2.solverstate");
  EXPECT_EQ(solve(resumed), (std::map<int, double>{{2, expected.at(2)}, {4, expected.at(4)}}));
}

TEST_F(SolverTestWithTestNet, TheLastTestCanBeStopped) {
  Context context;
  Solver solver(solver_param(text_), context);
  solver.poll = [&] { return solver.iteration() == 4 ? SolverAction::stop : SolverAction::none; };
  EXPECT_FALSE(solver.solve());
  EXPECT_EQ(solver.iteration(), 4);
  EXPECT_TRUE(fs::exists(prefix() + "_iter_4.solverstate"));
  EXPECT_TRUE(solver.test().empty());
}

TEST_F(SolverTest, AnAskedSeedWins) {
  auto weights = [&](const std::string& more, std::optional<uint64_t> seed) {
    Context context;
    Solver solver(solver_param(kNet + kSgd + "max_iter: 1 " + with_prefix() + more), context,
                  {.seed = seed});
    EXPECT_EQ(solver.net().run_state().seed, seed.value_or(more.empty() ? 1701 : 1));
    return params_of(solver.net());
  };
  const auto seven = weights("", 7);
  EXPECT_EQ(weights("random_seed: 1", 7), seven);
  EXPECT_NE(weights("random_seed: 1", std::nullopt), seven);

  // Of a run that is continued, too.
  Context first;
  Solver solver(solver_param(kNet + kSgd + "max_iter: 1 random_seed: 1 " + with_prefix()), first);
  const std::string state = solver.snapshot();
  Context second({.seed = 5});
  Solver plain(solver_param(kNet + kSgd + with_prefix()), second);
  plain.restore(state);
  EXPECT_EQ(plain.net().run_state().seed, 1U);
  Solver asked(solver_param(kNet + kSgd + with_prefix()), second, {.seed = 9});
  asked.restore(state);
  EXPECT_EQ(asked.net().run_state().seed, 9U);
}

TEST_F(SolverTest, MaxIterZeroIsACleanEnd) {
  Context context;
  Solver solver(solver_param(kNet + kSgd + "max_iter: 0"), context);
  EXPECT_TRUE(solver.solve());
}

TEST_F(SolverTest, StopsAtALossThatIsNotFinite) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& text) {
    if (severity == Severity::warning) warnings.push_back(text);
  }});
  Solver solver(
      solver_param(kNet + "base_lr: 1e30 lr_policy: 'fixed' max_iter: 50 " + with_prefix()),
      context);
  fill_inputs(solver.net());
  expect_error([&] { solver.solve(); }, {"not finite", "iteration", "base_lr"});
  for (const std::string& warning : warnings)
    EXPECT_EQ(warning.find("the loss '"), std::string::npos) << warning << ": told twice";
  Context other;
  Solver poisoned(solver_param(kNet + kSgd + "max_iter: 5 snapshot_after_train: false"), other);
  fill_inputs(poisoned.net());
  poisoned.net().input("data").change<float>()[0] = NAN;
  // Where the ReLU behind the convolution hides the NaN from the loss, the gradient still has it.
  expect_error([&] { poisoned.solve(); },
               {"not finite", "iteration 0", "'data'", "nan at (0, 0, 0, 0)"});
}

TEST_F(SolverTest, RefusesAWeightsFileAsState) {
  Context context;
  Solver solver(solver_param(kNet + kSgd + "max_iter: 1 " + with_prefix()), context);
  fill_inputs(solver.net());
  solver.solve();
  expect_error([&] { solver.restore(prefix() + "_iter_1.caffemodel"); },
               {"weights file", "--weights", ".solverstate"});
  expect_error([&] { solver.restore(prefix() + "_iter_9.solverstate"); }, {"_iter_9.solverstate"});
}

TEST_F(SolverTest, FindsWeightsBesideAMovedState) {
  Context context;
  const SolverParameter param = solver_param(kNet + kSgd + "max_iter: 2 " + with_prefix());
  Solver solver(param, context);
  fill_inputs(solver.net());
  solver.solve();
  const fs::path moved = folder_ / "moved";
  fs::create_directories(moved);
  for (const char* ending : {".caffemodel", ".solverstate"}) {
    fs::rename(prefix() + "_iter_2" + ending, moved / (std::string("snap_iter_2") + ending));
  }
  Solver other(param, context);
  other.restore((moved / "snap_iter_2.solverstate").string());
  EXPECT_EQ(params_of(other.net()), params_of(solver.net()));
  fs::remove(moved / "snap_iter_2.caffemodel");
  expect_error([&] { other.restore((moved / "snap_iter_2.solverstate").string()); },
               {"weights", "beside"});
}

TEST_F(SolverTest, ReportsTests) {
  Context context;
  std::string text = kNet;
  const std::string loss = "layer { name: \"loss\"";
  text.insert(text.find(loss),
              "layer { name: \"acc\" type: \"Accuracy\" bottom: \"ip\" bottom: \"label\" "
              "top: \"acc\" include { phase: TEST } }\n  ");
  Solver solver(solver_param(text + kSgd +
                             "max_iter: 4 test_iter: 3 test_interval: 2 "
                             "snapshot_after_train: false"),
                context);
  fill_inputs(solver.net());
  fill_inputs(*solver.test_nets()[0]);
  std::vector<int> at;
  solver.on_test = [&](const TestReport& report) {
    at.push_back(report.iteration);
    ASSERT_EQ(report.outputs.size(), 2U);
    EXPECT_EQ(report.outputs[0].name, "acc");
    EXPECT_EQ(report.outputs[1].loss_weight, 1);
  };
  solver.solve();
  EXPECT_EQ(at, (std::vector<int>{0, 2, 4}));
}

TEST_F(SolverTest, RefusesSettingsThatCannotWork) {
  Context context;
  auto refuse = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { Solver(solver_param(text), context); }, parts);
  };
  refuse(kSgd + "max_iter: 1", {"names no net"});
  refuse(kNet + "net: 'x.prototxt' " + kSgd, {"2 training nets"});
  refuse(kNet + "base_lr: 1 lr_policy: 'poly' power: 1", {"poly", "max_iter"});
  refuse(kNet + kSgd + "type: 'SDG'", {"'SDG'", "'SGD'"});
  refuse(kNet + kSgd + "regularization_type: 'L3'", {"'L3'", "L1"});
  refuse(kNet + kSgd + "iter_size: 0", {"iter_size 0"});
  refuse(kNet + kSgd + "test_iter: 1", {"test_interval"});
  refuse(kNet + kSgd + "random_seed: -5", {"random_seed -5 must be at least 0", "-1"});
  refuse(kNet + kSgd + "max_iter: 5 snapshot_prefix: '" + (folder_ / "no" / "such").string() + "'",
         {"no folder", "snapshot_prefix"});
}

TEST_F(SolverTest, LevelAndStagesOfTheOptionsAreThoseOfTheTrainingNet) {
  const SolverParameter param = solver_param(
      "net: 'n.prototxt' test_iter: 1 test_iter: 1 test_interval: 1 train_state { stage: 'own' } "
      "test_state { stage: 'small' } test_state { level: 2 }");
  const SolverNets nets = resolve_nets(param, {.level = 1, .stages = {"given"}}, SourceMap());
  EXPECT_EQ(nets.train.options.level, 1);
  EXPECT_EQ(nets.train.options.stages, (std::vector<std::string>{"given", "own"}));
  ASSERT_EQ(nets.tests.size(), 2U);
  EXPECT_EQ(nets.tests[0].options.level, 0);
  EXPECT_EQ(nets.tests[0].options.stages, std::vector<std::string>{"small"});
  EXPECT_EQ(nets.tests[1].options.level, 2);
  EXPECT_EQ(nets.tests[1].options.stages, std::vector<std::string>{});
}

TEST_F(SolverTest, WrongSettingsAreNamedByTheirPlace) {
  Context context;
  const std::string file = (folder_ / "wrong.prototxt").string();
  for (const auto& [wrong, said] : std::map<std::string, std::string>{
           {"lr_policy: 'fxed'", "lr_policy 'fxed' is unknown; did you mean 'fixed'? policies are"},
           {"base_lr: nan", "base_lr is nan"},
           {"momentum: 1.5", "momentum 1.5 must lie"},
           {"max_iter: -20", "max_iter -20"},
           {"test_interval: 1 test_iter: -1", "test_iter -1 must not be negative"},
           {"type: 'SDG'", "solver type 'SDG'"},
           {"regularization_type: 'L3'", "regularization_type 'L3'"},
           {"snapshot: -1", "snapshot -1"},
           {"warmup_iter: -1", "warmup_iter -1"},
           {"min_lr: 2", "min_lr 2 is larger than base_lr 1"},
           {"larc_policy: 'clop'", "larc_policy 'clop' is unknown; did you mean 'clip'?"},
           {"momentum: 0.5 type: 'AdaGrad'", "solver type 'AdaGrad': momentum 0.5 cannot be used"},
           {"delta: nan", "delta is nan"},
           {"ema_decay: 1", "ema_decay 1 must lie"},
           {"iter_size: 0", "iter_size 0"}}) {
    std::string text = "net: 'no such net'\n";
    if (!wrong.starts_with("base_lr")) text += "base_lr: 1 ";
    if (!wrong.starts_with("lr_policy")) text += "lr_policy: 'fixed'";
    std::ofstream(file) << text << "\n  " << wrong << "\n";
    const bool second = wrong.starts_with("test_interval");
    expect_error([&] { Solver(file, context); }, {file + (second ? ":3:20: " : ":3:3: ") + said});
  }
}

TEST_F(SolverTest, NetsThatCannotLearnAreWarnedOf) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  const auto warning_of = [&](const std::string& layers, const std::string& more = "") {
    warnings.clear();
    Solver(solver_param("net_param { layer { name: 'x' type: 'Input' top: 'x' "
                        "input_param { shape { dim: 2 dim: 3 } } } " +
                        layers + "} base_lr: 1 lr_policy: 'fixed' " + more),
           context);
    return warnings.size() == 1 ? warnings[0] : std::to_string(warnings.size());
  };
  const auto product = [](const std::string& multiplier) {
    const std::string param = "param { lr_mult: " + multiplier + " } ";
    return "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' " + param + param +
           "inner_product_param { num_output: 3 } } ";
  };
  const std::string loss = "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'x' } ";
  EXPECT_EQ(warning_of(product("1") + loss), "0");
  EXPECT_NE(warning_of(product("1")).find("has no loss"), std::string::npos);
  EXPECT_NE(warning_of(product("0") + loss).find("no parameters that learn"), std::string::npos);
  EXPECT_NE(warning_of(product("1") + loss, "test_interval: 5").find("without test_iter"),
            std::string::npos);
}

/// kNet with another input in its TEST nets: `shape` is that of the data.
std::string with_test_input(const std::string& shape) {
  std::string text = kNet;
  const std::string input = "layer { name: \"data\"";
  text.insert(text.find(input) + input.size(), " include { phase: TRAIN }");
  return text.insert(text.find(input),
                     "layer { name: \"data\" type: \"Input\" top: \"data\" top: \"label\" "
                     "include { phase: TEST } input_param { shape { " +
                         shape + " } shape { dim: 4 } } }\n");
}

// Nobody wants to learn after hours of training that the test cannot run.
TEST_F(SolverTest, TestNetsAreMadeBeforeTrainingStarts) {
  Context context;
  const std::string tests = kSgd +
                            "max_iter: 9 test_iter: 1 test_interval: 3 test_initialization: false "
                            "snapshot_after_train: false ";
  Solver(solver_param(with_test_input("dim: 4 dim: 2 dim: 8 dim: 8") + tests), context);
  const std::string wrong = with_test_input("dim: 4 dim: 2 dim: 9 dim: 9") + tests;
  expect_error([&] { Solver(solver_param(wrong), context); },
               {"TEST net #0: layer 'ip' (InnerProduct)", "3x294", "3x216"});
  const std::string file = (folder_ / "wrong.prototxt").string();
  std::ofstream(file) << wrong;
  try {
    Solver solver(file, context);
    ADD_FAILURE() << "no Error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.position().file, file);
    EXPECT_GT(error.position().line, 1) << error.what();
    EXPECT_EQ(std::string(error.what()).find(file + ":"), 0U) << error.what();
  }
}

TEST_F(SolverTest, AnErrorOfATestSaysWhichNet) {
  Context context;
  Solver solver(solver_param(kNet + kSgd +
                             "max_iter: 9 test_iter: 1 test_iter: 1 test_interval: 3 "
                             "snapshot_after_train: false"),
                context);
  for (Net* net : {&solver.net(), solver.test_nets()[0].get(), solver.test_nets()[1].get()}) {
    fill_inputs(*net);
  }
  solver.test_nets()[1]->input("label").fill(3);
  expect_error([&] { solver.solve(); }, {"TEST net #1: layer 'loss' (SoftmaxWithLoss)", "[0, 3)"});
}

TEST_F(SolverTest, SettingsOfForksAreTold) {
  const auto warnings = [](const std::string& more) {
    std::string text;
    Context context({.logger = [&](Severity severity, const std::string& message) {
      if (severity == Severity::warning) text += message + "\n";
    }});
    Solver(solver_param(kNet + kSgd + "snapshot_after_train: false " + more), context);
    return text;
  };
  EXPECT_EQ(warnings("layer_wise_reduce: true average_loss: 2 display: 1 solver_mode: CPU"), "");
  for (const char* name : {"store_blobs_in_old_format", "larc_turbo", "disabled_update"}) {
    EXPECT_NE(warnings(text(name, ": true")).find(text("'", name, "' belongs to a fork")),
              std::string::npos)
        << name;
  }
  for (const int number : {1, 42, 10000, 10499}) EXPECT_FALSE(is_of_fork(number)) << number;
  for (const int number : {43, 9999, 10500}) EXPECT_TRUE(is_of_fork(number)) << number;
}

// Images and labels from two databases are parts of the same samples.
TEST_F(SolverTestWithTestNet, CountsTheSamplesOfABatchOnce) {
  const std::string second = R"(layer { name: "again" type: "Data" top: "again"
          data_param { source: ")" +
                             (folder_ / "db").string() +
                             R"(" backend: LMDB batch_size: 2 } }
  layer { name: "silence" type: "Silence" bottom: "again" }
  layer { name: "ip")";
  text_.replace(text_.find("layer { name: \"ip\""), std::string("layer { name: \"ip\"").size(),
                second);
  Context context;
  Solver solver(solver_param(text_ + " iter_size: 3"), context);
  int64_t images = 0;
  solver.on_iteration = [&](const IterationReport& report) { images = report.images; };
  solver.step(1);
  EXPECT_EQ(images, 2 * 3);
}

// Whatever moment a run is killed at, every snapshot under its final name can be loaded.
TEST_F(SolverTest, AKilledRunLeavesWholeSnapshots) {
  const SolverParameter param =
      solver_param(kNet + kSgd + "max_iter: 1000000 snapshot: 1 " + with_prefix());
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // One thread: the parent's OpenMP threads do not exist here.
      Context context({.threads = 1, .engine = "reference"});
      Solver solver(param, context);
      fill_inputs(solver.net());
      solver.solve();
      _exit(0);
    }
    // The first run lives to its first snapshot, however slow the machine is.
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::minutes(1);
    while (round == 0 && !fs::exists(prefix() + "_iter_1.solverstate") && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 17 * round % 90));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the run must not have ended by itself";

    int last = -1;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".solverstate") {
        last = std::max(last, std::stoi(name.substr(name.rfind('_') + 1)));
      }
    }
    if (last < 0) continue;
    Context context({.threads = 1, .engine = "reference"});
    Solver solver(param, context);
    solver.restore(prefix() + "_iter_" + std::to_string(last) + ".solverstate");
    EXPECT_EQ(solver.iteration(), last);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    }
  }
  EXPECT_TRUE(fs::exists(prefix() + "_iter_1.solverstate")) << "no run lived to its first snapshot";
}

}  // namespace
}  // namespace crema
