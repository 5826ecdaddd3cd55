// Which snapshots a run keeps, which one it resumes from, and what it refuses to resume from.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "crema/solver.hpp"
#include "model/hdf5_file.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/memory_limit.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::params_of;

class SnapshotKeepTest : public ::testing::Test {
 protected:
  /// A net whose loss falls in each iteration.
  SolverParameter solver_param(const std::string& more) const {
    SolverParameter param;
    parse_text_proto(
        concat("net_param { name: 'falling' layer { name: 'x' type: 'Input' top: 'x' top: 'label' "
               "input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }"
               "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {"
               " num_output: 4 } }"
               "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
               "top: 'loss' } } base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' snapshot_prefix: '",
               folder_ / "s", "' ", more),
        "solver.prototxt", param);
    return param;
  }

  std::string file(int iteration, const std::string& ending) const {
    return concat(folder_ / "s", "_iter_", iteration, ending);
  }
  /// The iterations of the snapshots on disk; each has both files, or the test fails.
  std::set<int> on_disk() const {
    std::set<int> found;
    for (int i = 0; i <= 30; ++i) {
      for (const std::string format : {"", ".h5"}) {
        const bool state = fs::exists(file(i, ".solverstate" + format));
        EXPECT_EQ(state, fs::exists(file(i, ".caffemodel" + format))) << i;
        if (state) found.insert(i);
      }
    }
    return found;
  }

  /// Flips a bit in the middle of the file.
  static void damage(const std::string& path) {
    std::string content = test::read_file(path);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << content;
  }

  Context logging() {
    return Context({.logger = [this](Severity severity, const std::string& message) {
      if (severity == Severity::warning) warnings_ += message + "\n";
    }});
  }
  bool warned(const std::string& of) const { return warnings_.find(of) != std::string::npos; }

  test::ScratchFolder folder_;
  std::string warnings_;
};

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
        solver_param(concat("max_iter: 6 snapshot: 2 snapshot_keep: 1 snapshot_format: ", format)),
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

// The state is the largest file: the disk is full before it is written.
TEST_F(SnapshotKeepTest, AFullDiskLeavesTheSnapshotThatWouldBeReplaced) {
  for (const char* format : {"BINARYPROTO", "HDF5"}) {
    if (std::string(format) == "HDF5" && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    Context context = logging();
    SolverParameter param = solver_param(
        concat("type: 'Adam' ema_decay: 0.5 max_iter: 2 snapshot: 2 snapshot_format: ", format));
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
        concat("name: 'out' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: '", name, "'"),
        "layer", layer);
    param.set_snapshot_best(name);
    log.clear();
    Solver solver(param, context);
    EXPECT_NE(log.find(concat("the snapshot with the ", best, " '", name, "' of test net 0")),
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
    return concat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                  name,
                  "' param { name: 'w' } param { name: 'b' } inner_product_param { num_output: 60 "
                  "weight_filler { type: 'xavier' } } } ");
  };
  SolverParameter param;
  parse_text_proto(
      concat("net_param { layer { name: 'x' type: 'Input' top: 'x' top: 'label' input_param { "
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
  param.set_snapshot_keep(1);
  EXPECT_NE(check_snapshot_place(folder_ / "s", param, bytes * 5 / 2, 0, 0).find("up to 3 snap"),
            std::string::npos);
}

// As a run that is killed between the two files leaves them.
TEST_F(SnapshotKeepTest, WeightsOfAnotherRunAreNotTakenForThoseOfTheState) {
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    for (const char* ending : {".caffemodel", "_ema.caffemodel"}) {
      SCOPED_TRACE(ending + format);
      Context context = logging();
      const std::string settings =
          concat("max_iter: 4 snapshot: 2 ema_decay: 0.5 snapshot_format: ",
                 format.empty() ? "BINARYPROTO" : "HDF5");
      Solver(solver_param(settings), context).solve();
      const std::string state = file(4, ".solverstate" + format),
                        weights = file(4, ending + format);
      const std::string of_state = test::read_file(state);
      Solver(solver_param(settings + " random_seed: 7 type: 'Nesterov'"), context).solve();
      std::ofstream(state, std::ios::binary) << of_state;
      // The other run's state of iteration 2, and with its type, is whole.
      Solver solver(solver_param(settings), context);
      expect_error([&] { solver.restore(state); },
                   {state, file(4, ""), "were not written with the state", "--weights"});
      EXPECT_NE(why_damaged(state, true).find("were not written with the state"),
                std::string::npos);
      warnings_.clear();
      Solver other(solver_param(settings + " type: 'Nesterov'"), context);
      EXPECT_EQ(other.resume(), file(2, ".solverstate" + format));
      EXPECT_TRUE(warned("the snapshot '" + state + "' is passed over")) << warnings_;
      // Both formats of the same weights fit.
      Solver(solver_param(settings), context).solve();
      NetParameter same;
      read_weights(weights, same);
      write_weights(weights, same);
      Solver(solver_param(settings), context).restore(state);
      // Another average alone.
      for (LayerParameter& layer : *same.mutable_layer()) {
        for (BlobProto& blob : *layer.mutable_blobs()) blob.set_data(0, 77);
      }
      write_weights(weights, same);
      expect_error([&] { solver.restore(state); }, {state, weights, "were not written with"});
      // Published states cannot tell.
      SolverState published;
      read_solver_state(state, published);
      published.clear_learned_net_values();
      published.clear_average_net_values();
      write_solver_state(state, published);
      Solver(solver_param(settings), context).restore(state);
      for (const int i : {2, 4}) {
        for (const char* one : {".solverstate", ".caffemodel", "_ema.caffemodel"})
          fs::remove(file(i, one + format));
      }
    }
  }
}

// A better test is no part of the run that it interrupts.
TEST_F(SnapshotKeepTest, TheBestSnapshotResumesAsWithoutABreak) {
  Context context;
  const std::string settings =
      "max_iter: 6 snapshot_after_train: false test_iter: 1 test_interval: 3 "
      "snapshot_best: 'loss' snapshot: 100";
  Solver solver(solver_param(settings), context);
  solver.solve();
  Solver resumed(solver_param(settings), context);
  resumed.restore(file(3, ".solverstate"));
  resumed.solve();
  EXPECT_EQ(params_of(resumed.net()), params_of(solver.net()));
}

TEST_F(SnapshotKeepTest, ResumesFromTheNewestWholeSnapshot) {
  Context context = logging();
  Solver straight(solver_param("max_iter: 8 snapshot: 2"), context);
  EXPECT_EQ(straight.resume(), "");
  straight.solve();
  const auto resumed_from = [&] {
    warnings_.clear();
    Solver solver(solver_param("max_iter: 8 snapshot_after_train: false"), context);
    const std::string path = solver.resume();
    if (!path.empty()) {
      solver.solve();
      EXPECT_EQ(params_of(solver.net()), params_of(straight.net()));
    }
    return path;
  };
  folder_.write("s_iter_9.solverstate.tmp", "no snapshot");
  folder_.write("s_iter_x.solverstate", "no snapshot");
  EXPECT_EQ(resumed_from(), file(8, ".solverstate"));
  EXPECT_EQ(warnings_, "");
  damage(file(8, ".solverstate"));
  EXPECT_EQ(resumed_from(), file(6, ".solverstate"));
  EXPECT_TRUE(warned("the snapshot '" + file(8, ".solverstate") + "' is passed over")) << warnings_;
  EXPECT_TRUE(warned("copy or download it again")) << warnings_;
  damage(file(6, ".caffemodel"));
  fs::remove(file(4, ".caffemodel"));
  EXPECT_EQ(resumed_from(), file(2, ".solverstate"));
  EXPECT_TRUE(warned(file(6, ".caffemodel"))) << warnings_;
  EXPECT_TRUE(warned("put the weights of the same snapshot next to it")) << warnings_;
  fs::resize_file(file(2, ".solverstate"), 40);
  // From scratch the run would write over them.
  expect_error(resumed_from, {"none of the snapshots", file(8, ".solverstate"), "from scratch"});
}

TEST_F(SnapshotKeepTest, SnapshotsOfARelativePrefixAreNamedAsItIs) {
  Context context;
  Solver(solver_param("max_iter: 3"), context).solve();
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const std::vector<std::string> found = snapshots_of("s");
  fs::current_path(before);
  EXPECT_EQ(found, std::vector<std::string>{"s_iter_3.solverstate"});
}

// The average is of no use to a solver without one.
TEST_F(SnapshotKeepTest, ResumesWithoutAnAverageThatItDoesNotNeed) {
  Context context = logging();
  const std::string settings = "max_iter: 4 snapshot: 2 ";
  Solver(solver_param(settings + "ema_decay: 0.5"), context).solve();
  fs::remove(file(4, "_ema.caffemodel"));
  Solver plain(solver_param(settings), context);
  EXPECT_EQ(plain.resume(), file(4, ".solverstate"));
  Solver averaging(solver_param(settings + "ema_decay: 0.5"), context);
  EXPECT_EQ(averaging.resume(), file(2, ".solverstate"));
  EXPECT_TRUE(warned("'" + file(4, ".solverstate") + "' is passed over")) << warnings_;
}

// The weights that the run started from may be gone by then.
TEST_F(SnapshotKeepTest, ASnapshotIsFoundBeforeNetsAreMade) {
  Context context = logging();
  const SolverParameter param = solver_param("max_iter: 4 snapshot: 2 weights: 'gone.caffemodel'");
  EXPECT_EQ(Solver::find_snapshot(param, {}, context), "");
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  damage(file(4, ".solverstate"));
  const std::string found = Solver::find_snapshot(param, {}, context);
  EXPECT_EQ(found, file(2, ".solverstate"));
  EXPECT_TRUE(warned("passed over")) << warnings_;
  expect_error([&] { Solver(param, context); }, {"gone.caffemodel"});
  Solver solver(param, context, {.weights = std::vector<std::string>()});
  solver.restore(found);
  EXPECT_EQ(solver.iteration(), 2);
}

// A file that cannot be opened for a while is whole: an older snapshot must not take its place.
TEST_F(SnapshotKeepTest, WhatTheSystemRefusesIsNoDamage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "needs a build without sanitizers, which open pipes to look at memory: set no "
                  "CREMA_SANITIZE";
#endif
  Context context = logging();
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  Solver solver(solver_param("max_iter: 4"), context);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit few = {static_cast<rlim_t>(next), before.rlim_max};
  const auto refused = [&] {
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::string damage;
    try {
      damage = why_damaged(file(4, ".solverstate"), false);
    } catch (...) {
      ::setrlimit(RLIMIT_NOFILE, &before);
      throw;
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    ADD_FAILURE() << "taken for damage: " << damage;
  };
  expect_error(refused, {"cannot read '" + file(4, ".solverstate"), "no damage"});
  EXPECT_EQ(warnings_, "");
  EXPECT_EQ(solver.resume(), file(4, ".solverstate"));
}

TEST_F(SnapshotKeepTest, RefusesTheStateOfAnotherTypeOrNet) {
  Context context;
  Solver(solver_param("max_iter: 1"), context).solve();
  const std::string state = file(1, ".solverstate");
  SolverState saved;
  read_solver_state(state, saved);
  EXPECT_EQ(saved.type(), "SGD");
  saved.set_type("AdaGrad");  // which has as many histories
  write_solver_state(state, saved);
  Solver sgd(solver_param("max_iter: 1"), context);
  expect_error([&] { sgd.restore(state); },
               {state, "of a solver of type 'AdaGrad', this solver's is 'SGD'", "--weights"});
  // Published states do not name the type.
  saved.clear_type();
  saved.clear_net();
  for (int i = 0; i < 2; ++i) *saved.add_history() = saved.history(i);
  write_solver_state(state, saved);
  expect_error([&] { sgd.restore(state); },
               {"the state has 4 history blobs, this solver of type 'SGD' and this net need 2"});

  Solver(solver_param("max_iter: 1"), context).solve();
  SolverParameter other = solver_param("max_iter: 1");
  other.mutable_net_param()->set_name("other");
  other.mutable_net_param()->mutable_layer(1)->mutable_inner_product_param()->set_num_output(5);
  Solver wider(other, context);
  expect_error([&] { wider.restore(state); },
               {"parameter 0 of layer 'ip' has 12 values, the net 15", "its net is 'falling'",
                "this one 'other'"});
}

TEST_F(SnapshotKeepTest, RefusesIterationsThatNoRunHas) {
  Context context = logging();
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  const std::string state = file(4, ".solverstate");
  SolverState whole;
  read_solver_state(state, whole);
  Solver solver(solver_param("max_iter: 4"), context);
  for (const int value : {-1, INT_MIN}) {
    SolverState saved = whole;
    saved.set_iter(value);
    write_solver_state(state, saved);
    expect_error([&] { solver.restore(state); }, {state, concat("iter ", value), "damaged"});
    EXPECT_EQ(solver.resume(), file(2, ".solverstate"));
    saved = whole;
    saved.set_current_step(value);
    write_solver_state(state, saved);
    expect_error([&] { solver.restore(state); }, {state, concat("current_step ", value)});
  }
  whole.set_iter(INT_MAX);
  write_solver_state(state, whole);
  solver.restore(state);
  expect_error([&] { solver.step(1); }, {"iteration 2147483647"});
}

TEST_F(SnapshotKeepTest, AChangedSourceIsNamedAndStartsFromTheBeginning) {
  test::write_counting_database(folder_ / "records", 20);
  test::write_counting_database(folder_ / "longer", 21);
  const auto param = [&](const char* source) {
    SolverParameter result;
    parse_text_proto(
        concat("net_param { layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param {"
               " source: '",
               folder_ / source,
               "' backend: LMDB batch_size: 5 } }"
               "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
               "inner_product_param { num_output: 40 } }"
               "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
               "top: 'loss' } } base_lr: 0.001 lr_policy: 'fixed' max_iter: 3 snapshot_prefix: '",
               folder_ / "s", "'"),
        "solver.prototxt", result);
    return result;
  };
  Context context = logging();
  Solver(param("records"), context).solve();
  Solver(param("records"), context).restore(file(3, ".solverstate"));
  EXPECT_EQ(warnings_, "");
  Solver longer(param("longer"), context);
  longer.restore(file(3, ".solverstate"));
  EXPECT_TRUE(warned("the data of 'data' changed: it has 21 records, and had 20")) << warnings_;
  EXPECT_FALSE(warned("does not say how far")) << warnings_;
  longer.step(1);
  EXPECT_EQ(longer.net().blob("label").data.at(0), 0);
}

class Hdf5Snapshots : public SnapshotKeepTest {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
};

TEST_F(Hdf5Snapshots, ResumeBitForBitInBothTypes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Context context;
    const SolverOptions options{.dtype = dtype};
    const std::string settings = "max_iter: 6 snapshot: 3 snapshot_format: HDF5";
    Solver straight(solver_param(settings), context, options);
    straight.solve();
    EXPECT_FALSE(fs::exists(file(3, ".solverstate")));
    Solver resumed(solver_param(settings), context, options);
    resumed.restore(file(3, ".solverstate.h5"));
    resumed.solve();
    EXPECT_EQ(params_of(resumed.net()), params_of(straight.net()));
    Solver newest(solver_param(settings), context, options);
    EXPECT_EQ(newest.resume(), file(6, ".solverstate.h5"));
    expect_error([&] { newest.restore(file(6, ".caffemodel.h5")); },
                 {"that is a weights file; use --weights"});
    Net loaded(solver_param("").net_param(), context, {.phase = Phase::test, .dtype = dtype});
    EXPECT_TRUE(loaded.load_weights(file(6, ".caffemodel.h5"), true).missing.empty());
    EXPECT_EQ(params_of(loaded), params_of(straight.net()));
  }
}

// What memory cannot hold, and what no file system can name, is damage as any other.
TEST_F(Hdf5Snapshots, ResumePassesOverStatesThatCannotBeTrue) {
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  Context context = logging();
  Solver straight(solver_param("max_iter: 4 snapshot: 2 snapshot_format: HDF5"), context);
  straight.solve();
  {
    Hdf5Writer writer(file(9, ".solverstate.h5"));
    Tensor rows(Shape{4099}, DType::f32);
    rows.fill(1);
    writer.put("iter", 9);
    for (int i = 0; i < 9; ++i) writer.append(concat("/history/", i), rows);
    writer.finish();
  }
  std::string bytes = test::read_file(file(9, ".solverstate.h5"));
  const std::string size("\x03\x10\0\0\0\0\0\0", 8);
  for (size_t at = bytes.find(size); at != std::string::npos; at = bytes.find(size, at + 1)) {
    bytes[at + 2] = '\xe0';  // 58 MB
  }
  folder_.write("s_iter_9.solverstate.h5", bytes);
  SolverState nameless;
  nameless.set_iter(8);
  nameless.set_learned_net(std::string(5000, 'x'));
  write_solver_state(file(8, ".solverstate"), nameless);
  Solver solver(solver_param("max_iter: 4 snapshot_format: HDF5"), context);
  const test::MemoryLimit limit(size_t{300} << 20);
  EXPECT_EQ(solver.resume(), file(4, ".solverstate.h5"));
  EXPECT_TRUE(warned("'" + file(9, ".solverstate.h5") + "' is passed over")) << warnings_;
  EXPECT_TRUE(warned("the memory does not suffice")) << warnings_;
  EXPECT_TRUE(warned("'" + file(8, ".solverstate") + "' is passed over")) << warnings_;
}

// In Caffe's files the owner alone has a shared parameter.
TEST_F(Hdf5Snapshots, SharedParametersMayBeThereOnce) {
  const auto layer = [](const char* name, const char* bottom) {
    return concat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                  name, "' param { name: 'w' } inner_product_param { num_output: 3 bias_term: ",
                  *name == 'b' ? "true" : "false", " } }");
  };
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }" +
      layer("a", "x") + layer("b", "a") + layer("c", "b"));
  Context context;
  Net net(param, context, {.phase = Phase::test});
  NetParameter once;
  net.save(once);
  for (int i = 0; i < 9; ++i) once.mutable_layer(1)->mutable_blobs(0)->set_data(i, i);
  once.mutable_layer(2)->clear_blobs();  // its bias is its own, and so missing
  once.mutable_layer(3)->clear_blobs();
  write_weights(folder_ / "once.h5", once);
  Net partial(param, context, {.phase = Phase::test});
  const LoadReport report = partial.load_weights(folder_ / "once.h5");
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(report.missing, (std::vector<std::string>{"b"}));
  EXPECT_EQ(params_of(partial)[8], 8);
}

// Snapshots of Caffe 1.0: ../shared/data/models.
TEST_F(Hdf5Snapshots, PublishedOnesContinue) {
  const fs::path models = test::shared_path("data/models");
  if (!fs::exists(models)) GTEST_SKIP() << "needs " << models << ": set CREMA_SHARED_DIR";
  struct Published {
    const char *folder, *state, *weights;
    int iteration;
  };
  for (const Published& published :
       {Published{"cifar10_quick", "iter_5000.solverstate.h5", "iter_5000.caffemodel.h5", 5000},
        {"cifar10_full_hdf5", "snapshot.solverstate.h5", "weights.caffemodel.h5", 60000}}) {
    SCOPED_TRACE(published.folder);
    const fs::path folder = models / published.folder;
    SolverState state;
    read_solver_state((folder / published.state).string(), state);
    EXPECT_EQ(state.iter(), published.iteration);
    // The deploy net with a loss stands for the training net, whose database is not there.
    SolverParameter param;
    parse_text_proto("base_lr: 0.001 momentum: 0.9 lr_policy: 'fixed' snapshot_after_train: false",
                     "solver.prototxt", param);
    NetParameter& net = *param.mutable_net_param();
    read_text_proto((folder / "deploy.prototxt").string(), net);
    LayerParameter& last = *net.mutable_layer(net.layer_size() - 1);
    ASSERT_EQ(last.type(), "Softmax");
    last.set_type("SoftmaxWithLoss");
    last.add_bottom("label");
    NetParameter label = test::net_param(
        "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 1 } } }");
    label.mutable_layer()->MergeFrom(net.layer());
    for (LayerParameter& layer : *label.mutable_layer()) {
      if (layer.name() == "data") layer.mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
    }
    *net.mutable_layer() = label.layer();
    const fs::path beside = folder_ / published.folder;
    fs::create_directories(beside);
    fs::copy(folder / published.state, beside / "state");
    fs::copy(folder / published.weights, beside / fs::path(state.learned_net()).filename());
    Context context = logging();
    Solver solver(param, context);
    solver.restore((beside / "state").string());
    EXPECT_EQ(solver.iteration(), published.iteration);
    EXPECT_TRUE(solver.step(1));
  }
}

}  // namespace
}  // namespace crema
