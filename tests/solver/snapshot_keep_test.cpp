// Which snapshots a run keeps, and which of them is the best.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "model/snapshot_file.hpp"
#include "proto/net.pb.h"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/snapshot_run.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::params_of;

class SnapshotKeepTest : public test::SnapshotRun {};

TEST_F(SnapshotKeepTest, KeepsTheLastAndWhatItDidNotWrite) {
  Context context;
  Solver early(solver_param("max_iter: 3 snapshot: 3"), context);
  early.solve();  // another run's
  const std::string foreign = folder_.write("s_iter_5.caffemodel", "mine");
  const std::string kept = "max_iter: 10 snapshot: 2 snapshot_keep: 2";
  Solver solver(solver_param(kept), context);
  solver.solve();
  EXPECT_TRUE(fs::exists(foreign));
  fs::remove(foreign);
  EXPECT_EQ(on_disk(), (std::set<int>{3, 8, 10}));
}

TEST_F(SnapshotKeepTest, AResumedRunRemovesThoseOfItsBegin) {
  Context context;
  Solver(solver_param("max_iter: 4 snapshot: 2 snapshot_keep: 2"), context).solve();
  EXPECT_EQ(on_disk(), (std::set<int>{2, 4}));
  Solver resumed(solver_param("max_iter: 8 snapshot: 2 snapshot_keep: 2"), context);
  EXPECT_EQ(resumed.resume(), file(4, ".solverstate"));
  resumed.solve();
  EXPECT_EQ(on_disk(), (std::set<int>{6, 8}));
  // A run that continues from a copy elsewhere has no part in them.
  fs::create_directories(folder_ / "copy");
  for (const char* ending : {".solverstate", ".caffemodel"}) {
    fs::copy(file(8, ending), folder_ / (std::string("copy/s_iter_8") + ending));
  }
  Solver other(solver_param("max_iter: 10 snapshot: 1 snapshot_keep: 1"), context);
  other.restore(folder_ / "copy/s_iter_8.solverstate");
  other.solve();
  EXPECT_EQ(on_disk(), (std::set<int>{6, 8, 10}));
}

// The run that continues from elsewhere has written nothing at its own prefix yet.
TEST_F(SnapshotKeepTest, AStateFromElsewhereIsNoSnapshotOfTheRun) {
  Context context;
  Solver(solver_param("max_iter: 8 snapshot: 8"), context).solve();  // another run's
  fs::create_directories(folder_ / "elsewhere");
  SolverParameter elsewhere = solver_param("max_iter: 8 snapshot: 8");
  elsewhere.set_snapshot_prefix(folder_ / "elsewhere/x");
  Solver(elsewhere, context).solve();
  const std::string state = folder_ / "elsewhere/x_iter_8.solverstate";
  const std::string of_other = test::read_file(file(8, ".solverstate"));
  Solver best(solver_param("max_iter: 12 snapshot: 1 snapshot_keep: 1 test_iter: 1 "
                           "test_interval: 4 snapshot_best: 'loss'"),
              context);
  best.restore(state);
  best.step(1);  // the test of iteration 8 is the best so far: it writes a snapshot
  EXPECT_NE(test::read_file(file(8, ".solverstate")), of_other);

  for (const char* ending : {".solverstate", ".caffemodel"}) fs::remove(file(8, ending));
  Solver stopped(solver_param("max_iter: 12 snapshot: 4"), context);
  stopped.restore(state);
  stopped.poll = [] { return SolverAction::stop; };
  EXPECT_FALSE(stopped.solve());
  EXPECT_TRUE(fs::exists(file(8, ".solverstate")));
  fs::remove(file(8, ".solverstate"));
  // Its own snapshot is not written again.
  fs::copy(state, file(8, ".solverstate"));
  Solver own(solver_param("max_iter: 12 snapshot: 4"), context);
  own.restore(file(8, ".solverstate"));
  own.poll = [] { return SolverAction::stop; };
  own.on_snapshot = [](const std::string& path) { ADD_FAILURE() << path; };
  EXPECT_FALSE(own.solve());
}

TEST_F(SnapshotKeepTest, AFailedSnapshotLeavesTheLastGoodOne) {
  Context context = logging();
  Solver solver(
      solver_param("max_iter: 4 snapshot: 2 snapshot_keep: 1 snapshot_after_train: false"),
      context);
  fs::create_directories(file(4, ".solverstate") + "/in the way");
  expect_error([&] { solver.solve(); }, {"s_iter_4.solverstate"});
  EXPECT_TRUE(fs::exists(file(2, ".solverstate")));
  EXPECT_TRUE(fs::exists(file(2, ".caffemodel")));
}

TEST_F(SnapshotKeepTest, WhatCannotBeRemovedIsTriedAgain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs files of another user: run as root";
  Context context = logging();
  Solver solver(solver_param("max_iter: 3 snapshot: 1 snapshot_keep: 1"), context);
  solver.step(1);
  // In such a folder, as /tmp is, a user removes only files of their own.
  fs::permissions(folder_.path(), fs::perms::all | fs::perms::sticky_bit);
  ASSERT_EQ(::seteuid(65534), 0);
  solver.step(1);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(on_disk(), (std::set<int>{1, 2}));
  EXPECT_TRUE(warned("cannot remove the old snapshot '" + file(1, ".solverstate"))) << warnings_;
  solver.step(1);
  EXPECT_EQ(on_disk(), (std::set<int>{3}));
}

// A limit on the size of files stands for the full disk.
TEST_F(SnapshotKeepTest, AFullDiskLeavesTheLastGoodSnapshotAndSaysWhatToDo) {
  for (const char* format : {"BINARYPROTO", "HDF5"}) {
    if (std::string(format) == "HDF5" && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    warnings_.clear();
    Context context = logging();
    Solver solver(
        solver_param(text("max_iter: 6 snapshot: 2 snapshot_keep: 1 snapshot_format: ", format)),
        context);
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {64, before.rlim_max};
    std::set<int> during;
    solver.on_iteration = [&](const IterationReport& report) {
      if (report.iteration == 2) ::setrlimit(RLIMIT_FSIZE, &small);
      if (report.iteration == 4) {
        ::setrlimit(RLIMIT_FSIZE, &before);
        during = on_disk();
      }
    };
    EXPECT_TRUE(solver.solve());
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(during, (std::set<int>{2}));
    EXPECT_EQ(on_disk(), (std::set<int>{6}));
    EXPECT_TRUE(warned("the snapshot of iteration 4 failed, training goes on")) << warnings_;
    EXPECT_TRUE(warned("cannot write '" + file(4, ".caffemodel"))) << warnings_;
    EXPECT_TRUE(warned("disk")) << warnings_;
    for (const char* ending : {".solverstate", ".caffemodel"}) {
      fs::remove(file(6, ending));
      fs::remove(file(6, ending) + ".h5");
    }
  }
}

// The test of the same iteration tried once more, and warned once more.
TEST_F(SnapshotKeepTest, AFailedSnapshotIsWarnedOfOnce) {
  Context context = logging();
  Solver solver(solver_param("max_iter: 3 snapshot: 2 snapshot_after_train: false test_iter: 1 "
                             "test_interval: 2 test_initialization: false snapshot_best: 'loss'"),
                context);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {64, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const bool finished = solver.solve();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(finished);
  const size_t first = warnings_.find("the snapshot of iteration 2 failed");
  EXPECT_NE(first, std::string::npos) << warnings_;
  EXPECT_EQ(warnings_.find("the snapshot of iteration 2 failed", first + 1), std::string::npos)
      << warnings_;
}

// The state is the largest file: the disk is full before it is written.
TEST_F(SnapshotKeepTest, AFullDiskLeavesTheSnapshotThatWouldBeReplaced) {
  for (const char* format : {"BINARYPROTO", "HDF5"}) {
    if (std::string(format) == "HDF5" && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    Context context = logging();
    SolverParameter param = solver_param(
        text("type: 'Adam' ema_decay: 0.5 max_iter: 2 snapshot: 2 snapshot_format: ", format));
    param.mutable_net_param()->mutable_layer(1)->mutable_inner_product_param()->set_num_output(900);
    Solver first(param, context);
    first.solve();
    const std::string ending = std::string(format) == "HDF5" ? ".h5" : "";
    const std::string state = file(2, ".solverstate" + ending);
    const auto size = fs::file_size(file(2, ".caffemodel" + ending));
    ASSERT_GT(fs::file_size(state), size + 4000);
    param.set_base_lr(0.2F);
    Solver second(param, context);
    second.step(1);
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {size + 2000, before.rlim_max};
    second.on_iteration = [&](const IterationReport&) { ::setrlimit(RLIMIT_FSIZE, &small); };
    // Of the last iteration, so it is no warning.
    expect_error([&] { second.step(1); }, {"cannot write '" + state});
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(why_damaged(state, true), "");
    Solver resumed(param, context);
    resumed.restore(state);
    EXPECT_EQ(params_of(resumed.net()), params_of(first.net()));
  }
}

TEST_F(SnapshotKeepTest, KeepsTheBestByAnOutputOfATest) {
  Context context;
  const std::string tests = "snapshot: 1 snapshot_keep: 1 test_iter: 1 test_interval: 2 ";
  Solver falling(solver_param(tests + "max_iter: 6 snapshot_best: 'loss'"), context);
  falling.solve();
  EXPECT_EQ(on_disk(), (std::set<int>{6}));  // the last is the best
  fs::remove(file(6, ".solverstate"));
  fs::remove(file(6, ".caffemodel"));

  const std::string greatest = "snapshot_best: 'loss' snapshot_best_is: GREATEST ";
  Solver first(solver_param(tests + greatest + "max_iter: 3"), context);
  first.solve();
  EXPECT_EQ(on_disk(), (std::set<int>{0, 3}));  // the first test was the worst loss
  Solver resumed(solver_param(tests + greatest + "max_iter: 6"), context);
  EXPECT_EQ(resumed.resume(), file(3, ".solverstate"));
  resumed.solve();
  EXPECT_EQ(on_disk(), (std::set<int>{0, 6}));
}

TEST_F(SnapshotKeepTest, SaysWhichValueIsTheBest) {
  std::string log;
  Context context({.logger = [&](Severity, const std::string& message) { log += message + "\n"; }});
  for (const auto& [name, best] : {std::pair{"terrain_accuracy", "greatest"},
                                   {"top1_err", "least"},
                                   {"Error", "least"},
                                   {"gloss", "greatest"},
                                   {"loss2", "least"}}) {
    SolverParameter param = solver_param("max_iter: 1 test_iter: 1 test_interval: 2");
    LayerParameter& layer = *param.mutable_net_param()->add_layer();
    parse_text_proto(
        text("name: 'out' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: '", name, "'"),
        "layer", layer);
    param.set_snapshot_best(name);
    log.clear();
    Solver solver(param, context);
    EXPECT_NE(log.find(text("the snapshot with the ", best, " '", name, "' of test net 0")),
              std::string::npos)
        << log;
  }
}

TEST_F(SnapshotKeepTest, TheBestHasToBeAnOutputOfATestNet) {
  Context context;
  const std::string tests = "max_iter: 1 test_iter: 1 test_interval: 2 ";
  expect_error([&] { Solver(solver_param(tests + "snapshot_best: 'los'"), context); },
               {"snapshot_best 'los' is no output of test net 0", "did you mean 'loss'?"});
  expect_error([&] { Solver(solver_param("max_iter: 1 snapshot_best: 'loss'"), context); },
               {"snapshot_best 'loss' is of test net 0", "the solver has 0", "test_iter"});
  expect_error([&] { Solver(solver_param("max_iter: 1 snapshot_keep: -1"), context); },
               {"snapshot_keep -1 must not be negative"});
}

// The average of a run that wrote none is another's.
TEST_F(SnapshotKeepTest, RemovesAveragesOfItsOwnOnly) {
  Context context;
  const std::string foreign = folder_.write("s_iter_1_ema.caffemodel", "mine");
  const std::string settings = "snapshot: 1 snapshot_keep: 1 ";
  Solver(solver_param(settings + "max_iter: 2"), context).solve();
  EXPECT_EQ(on_disk(), (std::set<int>{2}));
  EXPECT_EQ(test::read_file(foreign), "mine");
  Solver averaging(solver_param(settings + "max_iter: 4 ema_decay: 0.5"), context);
  averaging.resume();
  averaging.solve();
  EXPECT_FALSE(fs::exists(file(3, "_ema.caffemodel")));
  EXPECT_TRUE(fs::exists(file(4, "_ema.caffemodel")));
  // It knows from the state that the average is the run's own.
  Solver resumed(solver_param(settings + "max_iter: 5"), context);
  EXPECT_EQ(resumed.resume(), file(4, ".solverstate"));
  resumed.solve();
  EXPECT_FALSE(fs::exists(file(4, "_ema.caffemodel")));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(SnapshotKeepTest, TheStateOfTheBestSaysSo) {
  Context context;
  const std::string settings =
      "snapshot_after_train: false test_iter: 1 test_interval: 1 max_iter: 3 "
      "snapshot_best: 'loss' ";
  Solver solver(solver_param(settings), context);
  std::vector<double> tested;
  solver.on_test = [&](const TestReport& report) { tested.push_back(report.outputs[0].value); };
  solver.solve();
  ASSERT_EQ(tested.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    SolverState state;
    read_solver_state(file(i, ".solverstate"), state);
    EXPECT_EQ(state.best_snapshot(), i);
    EXPECT_EQ(state.best_value(), tested[static_cast<size_t>(i)]);
  }
}

// The snapshot of an iteration is written before its test, which a resumed run does not repeat.
TEST_F(SnapshotKeepTest, TheStateKnowsOfABestTestBehindIt) {
  Context context;
  const std::string settings = "test_iter: 1 test_interval: 2 snapshot_best: 'loss' ";
  for (const char* periodic : {"", "snapshot: 5 "}) {
    SCOPED_TRACE(periodic);
    Solver solver(solver_param(settings + periodic + "max_iter: 5"), context);
    double last = 0;
    int at_end = 0;
    solver.on_test = [&](const TestReport& report) { last = report.outputs[0].value; };
    solver.on_snapshot = [&](const std::string& path) {
      at_end += path == file(5, ".solverstate");
    };
    solver.solve();
    EXPECT_EQ(at_end, 1) << "it is one snapshot, though it is written twice";
    SolverState state;
    read_solver_state(file(5, ".solverstate"), state);
    EXPECT_EQ(state.best_snapshot(), 5);
    EXPECT_EQ(state.best_value(), last);
    EXPECT_EQ(state.origin().tested_at(), 5);
    NetParameter best;
    read_weights(folder_ / "s_best.caffemodel", best);
    EXPECT_EQ(best.origin().best_iteration(), 5);

    // A run that goes on without a test keeps it.
    Solver resumed(solver_param("test_iter: 1 test_interval: 100 test_at_end: false "
                                "snapshot_best: 'loss' snapshot: 1 snapshot_keep: 1 max_iter: 8"),
                   context);
    EXPECT_EQ(resumed.resume(), file(5, ".solverstate"));
    const auto known = resumed.best();
    ASSERT_TRUE(known);
    EXPECT_EQ(known->iteration, 5);
    EXPECT_EQ(known->value, last);
    resumed.solve();
    EXPECT_EQ(on_disk(), (std::set<int>{5, 8}));
    for (const int i : {5, 8}) {
      for (const char* ending : {".solverstate", ".caffemodel"}) fs::remove(file(i, ending));
    }
  }
}

// As long as no link leads to the new one, the one before it is whole.
TEST_F(SnapshotKeepTest, TheLastIsLinkedBeforeTheOneBeforeItIsRemoved) {
  int warned = 0;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity != Severity::warning) return;
    ++warned;
    EXPECT_NE(message.find("no file leads to the last snapshot"), std::string::npos) << message;
    EXPECT_EQ(on_disk(), (std::set<int>{1, 2}));
  }});
  Solver solver(solver_param("test_iter: 1 test_interval: 100 test_initialization: false "
                             "snapshot_best: 'loss' snapshot: 1 snapshot_keep: 1 max_iter: 9"),
                context);
  solver.step(1);
  for (const char* ending : {".solverstate", ".caffemodel"})
    fs::remove(folder_ / (std::string("s_last") + ending));
  fs::create_directories(folder_ / "s_last.caffemodel/in the way");
  solver.step(1);
  EXPECT_EQ(warned, 1);
  EXPECT_EQ(on_disk(), (std::set<int>{2}));
}

// A value of another output, net or direction is not comparable.
TEST_F(SnapshotKeepTest, TheBestOfAnotherOutputIsForgotten) {
  std::string log;
  Context context({.logger = [&](Severity, const std::string& message) { log += message + "\n"; }});
  const std::string tests =
      "snapshot: 3 snapshot_keep: 1 test_iter: 1 test_iter: 1 test_interval: 1 max_iter: 6 "
      "snapshot_best: 'loss' ";
  Solver(solver_param("snapshot_after_train: false " + tests), context).step(3);
  SolverState state;
  read_solver_state(file(3, ".solverstate"), state);
  EXPECT_EQ(state.best_output(), "loss");
  EXPECT_EQ(state.best_net(), 0);
  EXPECT_TRUE(state.best_is_least());
  struct Case {
    const char* settings;
    int net;
    bool forgets;
  };
  for (const Case& one : {Case{"", 0, false}, Case{"snapshot_best_net: 1", 1, true},
                          Case{"snapshot_best_is: GREATEST", 0, true}}) {
    SCOPED_TRACE(one.settings);
    SnapshotKeeper keeper(solver_param(tests + one.settings), folder_ / "s");
    Solver nets(solver_param(tests + one.settings), context);
    keeper.check(nets.test_nets());
    log.clear();
    EXPECT_TRUE(keeper.load(state, file(3, ".solverstate"), context));
    TestReport report;
    report.net = one.net;
    report.outputs.push_back({"loss", 0, state.best_value(), 1});
    EXPECT_EQ(keeper.better(report).has_value(), one.forgets);
    EXPECT_EQ(log.find("compares another value") != std::string::npos, one.forgets) << log;
  }
  // An output of another name.
  SolverParameter param = solver_param(tests);
  LayerParameter& layer = *param.mutable_net_param()->add_layer();
  parse_text_proto("name: 'out' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy'",
                   "layer", layer);
  param.set_snapshot_best("accuracy");
  Solver other(param, context);
  log.clear();
  other.restore(file(3, ".solverstate"));
  EXPECT_NE(log.find("'loss' of test net 0"), std::string::npos) << log;
}

// The best snapshots alone need a place too, before training starts.
TEST_F(SnapshotKeepTest, APlaceForTheBestIsChecked) {
  Context context;
  SolverParameter param = solver_param(
      "snapshot_after_train: false test_iter: 1 test_interval: 1 max_iter: 3 "
      "snapshot_best: 'loss'");
  param.set_snapshot_prefix(folder_ / "absent/s");
  expect_error([&] { Solver(param, context); }, {"there is no folder", "absent"});
}

// Files hold a shared parameter once for each layer.
TEST_F(SnapshotKeepTest, SharedParametersTakeSpaceInEachLayer) {
  const auto layer = [](const char* name, const char* bottom) {
    return text("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name,
                "' param { name: 'w' } param { name: 'b' } inner_product_param { num_output: 60 "
                "weight_filler { type: 'xavier' } } } ");
  };
  SolverParameter param;
  parse_text_proto(
      text("net_param { layer { name: 'x' type: 'Input' top: 'x' top: 'label' input_param { "
           "shape { dim: 2 dim: 60 } shape { dim: 2 } } } ",
           layer("a", "x"), layer("b", "a"), layer("c", "b"),
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' "
           "top: 'loss' } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: '",
           folder_ / "s", "'"),
      "solver.prototxt", param);
  for (const bool diffs : {false, true}) {
    param.set_snapshot_diff(diffs);
    Context context;
    Solver solver(param, context);
    solver.solve();
    const size_t bytes = saved_bytes(solver.net(), diffs);
    EXPECT_EQ(bytes, 3 * 61 * 60 * sizeof(float) * (diffs ? 2 : 1));
    EXPECT_NEAR(static_cast<double>(fs::file_size(file(1, ".caffemodel"))),
                static_cast<double>(bytes), 1000);
  }
}

TEST_F(SnapshotKeepTest, SpaceIsCountedForEachBestSnapshot) {
  SolverParameter param = solver_param(
      "snapshot: 4 test_iter: 1 test_interval: 2 max_iter: 8 snapshot_best: 'loss' "
      "snapshot_format: HDF5");
  // A sixth of the free space, and less.
  const size_t bytes = fs::space(folder_.path()).available / 6;
  // Tests at 0, 2, 4, 6 and 8; snapshots at 4 and 8.
  EXPECT_EQ(check_snapshot_place(folder_ / "s", param, bytes / 8, 0, 0), "");
  EXPECT_NE(check_snapshot_place(folder_ / "s", param, bytes * 3 / 2, 0, 0).find("up to 5 snap"),
            std::string::npos);
  // With the best weights and a snapshot that is written anew, these are 7.
  EXPECT_NE(check_snapshot_place(folder_ / "s", param, bytes, 0, 0).find("up to 5 snapshots and "),
            std::string::npos);
  param.set_snapshot_keep(1);
  EXPECT_NE(check_snapshot_place(folder_ / "s", param, bytes * 5 / 2, 0, 0).find("up to 3 snap"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
