// Snapshots: what they hold, which weights belong to them, and runs that read records.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "crema/solver.hpp"
#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::params_of;

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() { test::write_counting_database(folder_ / "records", 37); }

  std::string prefix(const std::string& name = "snap") const { return folder_ / name; }

  /// A net that reads shuffled records in TRAIN and TEST, with random masks.
  SolverParameter solver_param(const std::string& more) const {
    const auto data = [&](const char* phase) {
      return text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: ",
                  phase, " } transform_param { mirror: true scale: 0.01 } data_param { source: '",
                  folder_ / "records", "' backend: LMDB batch_size: 5 shuffle: true } }\n");
    };
    const std::string prototxt = text(
        "net_param { ", data("TRAIN"), data("TEST"),
        "layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'drop' }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip' inner_product_param {"
        " num_output: 40 weight_filler { type: 'xavier' } } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } }"
        "base_lr: 0.1 momentum: 0.9 weight_decay: 0.001 ",
        more);
    SolverParameter param;
    parse_text_proto(prototxt, "solver.prototxt", param);
    if (!param.has_snapshot_prefix()) param.set_snapshot_prefix(prefix());
    return param;
  }

  /// What a process of this machine calls `file` until it is whole.
  static std::string unfinished(const std::string& file, int process) {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return text(file, ".tmp.", host, ".", process);
  }

  test::ScratchFolder folder_;
};

// 20 iterations of 3 batches of 5, in an order that 37 records divide into no whole epochs.
TEST_F(SnapshotTest, ResumesBitForBitOverRecords) {
  const SolverParameter param = solver_param(
      "lr_policy: 'inv' gamma: 0.1 power: 0.75 max_iter: 20 iter_size: 3 "
      "test_iter: 2 test_interval: 4 snapshot: 9");
  std::vector<double> straight;
  std::vector<double> tested, tested_again;
  {
    Context context({.seed = 5});
    Solver solver(param, context);
    solver.on_test = [&](const TestReport& report) { tested.push_back(report.loss); };
    solver.solve();
    straight = params_of(solver.net());
  }
  Context context({.seed = 99});
  Solver solver(param, context);
  solver.on_test = [&](const TestReport& report) { tested_again.push_back(report.loss); };
  solver.restore(prefix() + "_iter_9.solverstate");
  solver.solve();
  EXPECT_EQ(params_of(solver.net()), straight);
  ASSERT_EQ(tested.size(), 6U);  // at 0, 4, 8 | 12, 16, 20
  EXPECT_EQ(tested_again, std::vector<double>(tested.begin() + 3, tested.end()));
}

// Each batch begins with the states of the batch before it.
TEST_F(SnapshotTest, ResumesWithTheStatesOfRecurrentLayers) {
  const SolverParameter param = [&] {
    SolverParameter with =
        solver_param("lr_policy: 'fixed' max_iter: 9 test_iter: 1 test_interval: 3 snapshot: 5");
    NetParameter rest, &net = *with.mutable_net_param();
    net.mutable_layer()->DeleteSubrange(2, net.layer_size() - 2);  // all but the data
    parse_text_proto(R"(
        layer { name: 'zero' type: 'Input' top: 'zero' input_param { shape { dim: 5 dim: 1 } } }
        layer { name: 'ones' type: 'Power' bottom: 'zero' top: 'cont' power_param { shift: 1 } }
        layer { name: 'lstm' type: 'LSTM' bottom: 'data' bottom: 'cont' top: 'lstm' recurrent_param {
                num_output: 8 weight_filler { type: 'xavier' } } }
        layer { name: 'ip' type: 'InnerProduct' bottom: 'lstm' top: 'ip' inner_product_param {
                num_output: 40 weight_filler { type: 'xavier' } } }
        layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })",
                     "net.prototxt", rest);
    net.MergeFrom(rest);
    return with;
  }();
  std::vector<double> tested, tested_again;
  Context context, again;
  Solver straight(param, context), resumed(param, again);
  straight.on_test = [&](const TestReport& report) { tested.push_back(report.loss); };
  resumed.on_test = [&](const TestReport& report) { tested_again.push_back(report.loss); };
  straight.solve();
  resumed.restore(prefix() + "_iter_5.solverstate");
  resumed.solve();
  EXPECT_EQ(params_of(resumed.net()), params_of(straight.net()));
  ASSERT_EQ(tested.size(), 4U);  // at 0, 3 | 6, 9
  EXPECT_EQ(tested_again, std::vector<double>(tested.begin() + 2, tested.end()));

  // Without them, the run is another one.
  SolverState state;
  read_binary_proto(prefix() + "_iter_5.solverstate", state);
  EXPECT_EQ(state.layer_state_size(), 2);
  state.clear_layer_state();
  write_binary_proto_atomically(prefix() + "_iter_5.solverstate", state);
  Context third;
  Solver other(param, third);
  other.restore(prefix() + "_iter_5.solverstate");
  other.solve();
  EXPECT_NE(params_of(other.net()), params_of(straight.net()));
}

TEST_F(SnapshotTest, SolversOfOneContextDoNotDisturbEachOther) {
  const SolverParameter param = solver_param(
      "lr_policy: 'fixed' max_iter: 6 random_seed: 3 snapshot_after_train: false "
      "test_iter: 2 test_interval: 2");
  const auto watch = [](Solver& solver, std::vector<double>& losses) {
    solver.on_test = [&](const TestReport& report) { losses.push_back(report.loss); };
  };
  std::vector<double> tested_alone, tested;
  Context alone_context;
  Solver alone(param, alone_context);
  watch(alone, tested_alone);
  alone.step(6);
  Context context;
  Solver first(param, context);
  watch(first, tested);
  SolverParameter other = param;
  other.set_random_seed(4);
  Solver second(other, context);
  first.step(2);
  // In two threads at once.
  std::thread aside([&] { second.step(6); });
  first.step(4);
  aside.join();
  EXPECT_EQ(params_of(first.net()), params_of(alone.net()));
  EXPECT_EQ(tested, tested_alone);
}

TEST_F(SnapshotTest, SaysHowOftenTheRateWasLowered) {
  for (const auto& [policy, passed] :
       {std::pair{"lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 stepvalue: 5 stepvalue: 6", 2},
        std::pair{"lr_policy: 'step' gamma: 0.5 stepsize: 2", 2},
        std::pair{"lr_policy: 'fixed'", 0}}) {
    Context context;
    Solver solver(solver_param(text(policy, " max_iter: 6")), context);
    solver.solve();
    SolverState state;
    read_binary_proto(prefix() + "_iter_6.solverstate", state);
    EXPECT_EQ(state.current_step(), passed) << policy;
  }
}

// The name that a state gives its weights is relative to where its run was started.
TEST_F(SnapshotTest, TakesTheWeightsBesideTheState) {
  const fs::path before = fs::current_path();
  for (const char* run : {"a", "b"}) {
    fs::create_directories(folder_ / run);
    fs::current_path(folder_ / run);
    Context context({.seed = static_cast<uint64_t>(run[0])});
    SolverParameter param = solver_param("lr_policy: 'fixed' max_iter: 2 snapshot_prefix: 'snap'");
    Solver(param, context).solve();
  }
  SolverParameter param = solver_param("lr_policy: 'fixed' max_iter: 2");
  Context context;
  Solver solver(param, context);
  solver.restore("../a/snap_iter_2.solverstate");
  fs::current_path(before);
  Net expected(param.net_param(), context, {.phase = Phase::train});
  expected.load_weights(folder_ / "a/snap_iter_2.caffemodel");
  EXPECT_EQ(params_of(solver.net()), params_of(expected));
}

TEST_F(SnapshotTest, TakesTheWeightsThatWereRenamedWithTheState) {
  Context context;
  SolverParameter param = solver_param("lr_policy: 'fixed' max_iter: 2 ema_decay: 0.5");
  param.set_snapshot_prefix(folder_ / "snap");
  Solver(param, context).solve();
  for (const char* ending : {".solverstate", ".caffemodel", "_ema.caffemodel"}) {
    fs::rename(folder_ / ("snap_iter_2" + std::string(ending)),
               folder_ / ("moved" + std::string(ending)));
  }
  Solver solver(param, context);
  solver.restore(folder_ / "moved.solverstate");
  Net expected(param.net_param(), context, {.phase = Phase::train});
  expected.load_weights(folder_ / "moved.caffemodel");
  EXPECT_EQ(params_of(solver.net()), params_of(expected));
  fs::remove(folder_ / "moved_ema.caffemodel");
  expect_error([&] { solver.restore(folder_ / "moved.solverstate"); },
               {"snap_iter_2_ema.caffemodel", "average of the weights", "under that name"});
}

TEST_F(SnapshotTest, StartsFromTheWeightsThatTheSolverNames) {
  Context context({.seed = 8});
  Solver first(solver_param("lr_policy: 'fixed' max_iter: 2"), context);
  first.solve();
  const std::string file = prefix() + "_iter_2.caffemodel";
  const SolverParameter named = solver_param(text("lr_policy: 'fixed' weights: '", file, "'"));
  Context other;
  EXPECT_EQ(params_of(Solver(named, other).net()), params_of(first.net()));
  const std::vector<std::string> none;
  EXPECT_NE(params_of(Solver(named, other, {.weights = none}).net()), params_of(first.net()));
  expect_error(
      [&] { Solver(solver_param("lr_policy: 'fixed' weights: 'none.caffemodel'"), other); },
      {"none.caffemodel"});
}

TEST_F(SnapshotTest, StrictWeightsMayComeInPieces) {
  Context context;
  SolverParameter param;
  parse_text_proto(R"(net_param {
    layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
    layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' inner_product_param { num_output: 4 } }
    layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' inner_product_param { num_output: 2 } }
    layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 'b' top: 'l' } }
    base_lr: 0.1 lr_policy: 'fixed')",
                   "solver.prototxt", param);
  NetParameter all;
  Solver(param, context).net().save(all);
  std::vector<std::string> files;
  for (const char* keep : {"a", "b"}) {
    NetParameter part;
    for (const LayerParameter& layer : all.layer()) {
      if (layer.name() == keep) *part.add_layer() = layer;
    }
    files.push_back(prefix(keep) + ".caffemodel");
    write_binary_proto_atomically(files.back(), part);
  }
  Solver(param, context, {.weights = files, .strict_weights = true});
  files.pop_back();
  expect_error([&] { Solver(param, context, {.weights = files, .strict_weights = true}); },
               {"strict", "1 missing (b)"});
}

TEST_F(SnapshotTest, RemovesWhatKilledWritersLeft) {
  const std::string dead = unfinished(prefix() + "_iter_3.caffemodel", 999999999);
  const std::string alive = unfinished(prefix() + "_iter_3.caffemodel", ::getpid());
  const std::string others = unfinished(prefix("other") + "_iter_3.caffemodel", 999999999);
  const std::string notes = unfinished(prefix() + "_iter_notes", 999999999);
  // Of a machine that shares the folder, whose processes nobody here can see.
  const std::string far = prefix() + "_iter_3.caffemodel.tmp.another-host.999999999";
  for (const std::string& file : {dead, alive, others, notes, far}) std::ofstream(file) << "half";
  const std::string copy = unfinished(prefix() + "_last.solverstate", 999999999);
  const std::string link = unfinished(prefix() + "_last_ema.caffemodel", 999999999);
  std::ofstream(copy) << "half";
  fs::create_symlink("gone", link);
  const int writer = ::open(alive.c_str(), O_RDWR);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  Context context;
  Solver solver(solver_param("lr_policy: 'fixed' max_iter: 1"), context);
  ::close(writer);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(copy));
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_TRUE(fs::exists(far));
}

// A snapshot of a linked name is written beside the file that the link leads to.
TEST_F(SnapshotTest, RemovesWhatKilledWritersLeftBehindLinks) {
  fs::create_directory(folder_ / "disk");
  const std::string target = folder_ / "disk/weights", other = folder_ / "disk/other";
  fs::create_symlink("disk/weights", prefix() + "_iter_3.caffemodel");
  const std::string dead = unfinished(target, 999999999), others = unfinished(other, 999999999);
  for (const std::string& file : {target, dead, others}) std::ofstream(file) << "half";
  Context context;
  Solver solver(solver_param("lr_policy: 'fixed' max_iter: 1"), context);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_TRUE(fs::exists(target));
}

// Weights without their state are no snapshot.
TEST_F(SnapshotTest, AStateThatCannotBeWrittenTakesItsWeightsAlong) {
  Context context;
  Solver solver(solver_param("lr_policy: 'fixed' max_iter: 1"), context);
  const std::string weights = prefix() + "_iter_0.caffemodel";
  fs::create_directories(prefix() + "_iter_0.solverstate/in the way");
  expect_error([&] { solver.snapshot(); }, {"_iter_0.solverstate"});
  EXPECT_FALSE(fs::exists(weights));
  // A file that was there before stays: the state of its run may need it.
  solver.net().save_weights(weights);
  expect_error([&] { solver.snapshot(); }, {"_iter_0.solverstate"});
  EXPECT_TRUE(fs::exists(weights));
}

// A disk that is full for a minute, or a folder of the network that is away, must not end a run of
// days.
TEST_F(SnapshotTest, APeriodicSnapshotThatFailsIsTriedAgainAtTheNextPeriod) {
  const std::string home = folder_ / "out", away = folder_ / "away";
  fs::create_directories(home);
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  const auto param = [&](const std::string& more) {
    return solver_param(
        text("lr_policy: 'fixed' snapshot: 2 snapshot_prefix: '", home, "/s' ", more));
  };
  const auto leave_and_return = [&](Solver& solver, int left, int back) {
    solver.on_iteration = [&, left, back](const IterationReport& report) {
      if (report.iteration == left) fs::rename(home, away);
      if (report.iteration == back) fs::rename(away, home);
    };
  };
  {
    Solver solver(param("max_iter: 6"), context);
    leave_and_return(solver, 0, 2);
    // Asked for by a signal, it is none that the run depends on.
    solver.poll = [&] {
      return solver.iteration() == 1 ? SolverAction::snapshot : SolverAction::none;
    };
    EXPECT_TRUE(solver.solve());
  }
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("snapshot of iteration 1 failed"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("snapshot of iteration 2 failed"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[1].find("cannot write"), std::string::npos) << warnings[1];
  EXPECT_FALSE(fs::exists(home + "/s_iter_2.solverstate"));
  EXPECT_TRUE(fs::exists(home + "/s_iter_4.solverstate"));
  EXPECT_TRUE(fs::exists(home + "/s_iter_6.solverstate"));

  // At the end, and at a stop, nothing comes after it.
  for (const char* more : {"max_iter: 2 snapshot_after_train: false", "max_iter: 3"}) {
    Solver solver(param(more), context);
    leave_and_return(solver, 0, -1);
    expect_error([&] { solver.solve(); }, {"cannot write", "create the folder"});
    fs::rename(away, home);
  }
  Solver solver(param("max_iter: 6"), context);
  leave_and_return(solver, 0, -1);
  solver.poll = [&] { return solver.iteration() == 3 ? SolverAction::stop : SolverAction::none; };
  expect_error([&] { solver.solve(); }, {"cannot write", "_iter_3"});
}

// Published states do not say where the data stood.
TEST_F(SnapshotTest, WarnsWhereAStateDoesNotKnowTheData) {
  std::string warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings += message + "\n";
  }});
  const SolverParameter param =
      solver_param("lr_policy: 'fixed' max_iter: 2 test_iter: 1 test_interval: 2");
  Solver(param, context).solve();
  const std::string path = prefix() + "_iter_2.solverstate";
  Solver(param, context).restore(path);
  EXPECT_EQ(warnings, "");
  SolverState state;
  read_binary_proto(path, state);
  state.clear_data_cursor();
  write_binary_proto_atomically(path, state);
  Solver(param, context).restore(path);
  EXPECT_NE(warnings.find("the data of 'data', 'test0/data'"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("start from the beginning"), std::string::npos) << warnings;
}

TEST_F(SnapshotTest, WithoutMaxIterThereIsNothingToSolve) {
  Context context;
  Solver solver(solver_param("lr_policy: 'fixed' snapshot_after_train: false"), context);
  expect_error([&] { solver.solve(); }, {"max_iter"});
  EXPECT_TRUE(solver.step(1)) << "single steps need none";
}

TEST_F(SnapshotTest, ErrorsOfInlineNetsNameTheLineInTheSolver) {
  const std::string file = folder_.write("solver.prototxt", R"(base_lr: 0.1 lr_policy: 'fixed'
max_iter: 1
net_param {
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' }
})");
  Context context;
  expect_error([&] { Solver(file, context); }, {"solver.prototxt:5", "layer 'ip'", "num_output"});
}

TEST_F(SnapshotTest, ATestNetMayNotLearnAlone) {
  const std::string input =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } ";
  const auto net = [&](const char* name) {
    return text(input, "layer { name: '", name,
                "' type: 'InnerProduct' bottom: 'x' top: 'y'"
                " inner_product_param { num_output: 2 } }"
                " layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'y' top: 'l' }");
  };
  SolverParameter param;
  parse_text_proto(text("train_net_param { ", net("fc8"), " } test_net_param { ", net("fc8_test"),
                        " } test_iter: 1 test_interval: 1 base_lr: 0.1 lr_policy: 'fixed'"),
                   "solver.prototxt", param);
  Context context;
  expect_error([&] { Solver(param, context); }, {"'fc8_test'", "give the layer the name"});
}

// Before an hour's training, not at its end.
TEST_F(SnapshotTest, PlacesThatCannotHoldThemAreErrorsAtTheStart) {
  SolverParameter param = solver_param("lr_policy: 'fixed' max_iter: 2");
  Context context;
  param.set_snapshot_prefix(folder_ / std::string(230, 'x'));
  std::string message;
  try {
    Solver solver(param, context);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("has 230 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("shorten snapshot_prefix"), std::string::npos) << message;
  const std::string limit = "no room for more than ";
  const size_t most = std::stoul(message.substr(message.find(limit) + limit.size()));
  EXPECT_GT(most, 100U);
  param.set_snapshot_prefix(folder_ / std::string(most + 1, 'x'));
  expect_error([&] { Solver(param, context); }, {"more than " + std::to_string(most)});
  param.set_snapshot_prefix(folder_ / std::string(most, 'x'));
  Solver(param, context).solve();
  EXPECT_TRUE(fs::exists(param.snapshot_prefix() + "_iter_2.solverstate"));
  param.set_snapshot_prefix(prefix());
  *param.mutable_net_param()->add_layer() = param.net_param().layer(3);
  LayerParameter& second = *param.mutable_net_param()->mutable_layer(5);
  second.set_top(0, "more");
  Solver(param, context).solve();  // the published format has layers of one name
  if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  param.set_snapshot_format(SolverParameter::HDF5);
  expect_error([&] { Solver(param, context); }, {"two layers are named 'ip'", "BINARYPROTO"});
}

TEST_F(SnapshotTest, AStateMaySetThePhaseOfATrainingNet) {
  const SolverParameter param =
      solver_param("lr_policy: 'fixed' max_iter: 2 train_state { phase: TEST }");
  Context context;
  Solver solver(param, context);
  EXPECT_EQ(solver.net().phase(), Phase::test);
  const auto before = params_of(solver.net());
  solver.step(1);
  EXPECT_NE(params_of(solver.net()), before);
}

}  // namespace
}  // namespace crema
