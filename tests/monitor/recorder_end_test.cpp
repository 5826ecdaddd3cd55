// How recording ends or fails: full disks, runs that fail or go back, folders that are taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "monitor/recorder.hpp"
#include "monitor/recorder_run.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Place;
using test::read_file;
using test::RecorderTest;
using test::ResumedTest;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(RecorderTest, ReportsOfSnapshotsTakeLittleOfTheTime) {
  SolverParameter solver_param = param();
  solver_param.set_snapshot(1);
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  int reports = 0;
  recorder.on_folder_changed = [&] {
    ++reports;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  recorder.attach();
  ASSERT_TRUE(solver.solve());
  EXPECT_EQ(reports, 0) << "a training of milliseconds";
  recorder.end(RunRecord::FINISHED);
  EXPECT_EQ(reports, 1) << "the last one is made in any case";
}

TEST_F(ResumedTest, ALongRunHasAReportBehindEachSnapshot) {
  run_killed(5);
  std::string lines;
  for (RunRecord one : records()) {
    one.set_time(3600);
    lines += json_line(one) + "\n";
  }
  folder_.write("runs/it-1/metrics.jsonl", lines);
  Context of = context();
  Solver solver(param(), of);
  solver.restore(folder_ / "s_iter_4.solverstate");
  Recorder recorder(solver, param(), describe_run(solver, param()), run(), {.resumed = true});
  int reports = 0, cost = 0;  // milliseconds
  recorder.on_folder_changed = [&] {
    ++reports;
    std::this_thread::sleep_for(std::chrono::milliseconds(cost));
  };
  recorder.attach();
  solver.step(4);
  EXPECT_EQ(reports, 1);
  solver.step(2);
  solver.snapshot();
  EXPECT_EQ(reports, 2);
  // More than a thousandth of the hour, in sum.
  cost = 3700;
  solver.step(1);
  solver.snapshot();
  EXPECT_EQ(reports, 3);
  solver.step(1);
  solver.snapshot();
  EXPECT_EQ(reports, 3);
}

TEST_F(RecorderTest, AFullDiskIsOneWarningAndTheRunGoesOn) {
  const SolverParameter solver_param = param();
  train(solver_param);
  const std::string expected = read_file(folder_ / "s_iter_10.caffemodel");
  fs::remove_all(run());
  fs::create_directories(run());
  for (const char* file : {"metrics.jsonl", "histograms.jsonl"})
    fs::create_symlink("/dev/full", path(file));
  train(solver_param);
  EXPECT_EQ(read_file(folder_ / "s_iter_10.caffemodel"), expected);
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr(run()));
  EXPECT_THAT(warnings_[0], HasSubstr("No space left on device"));
  EXPECT_THAT(warnings_[0], HasSubstr("training goes on"));
  // What has room is written.
  EXPECT_EQ(read_run_info(run()).net(), "it");
  EXPECT_THAT(curves()["train/loss"], SizeIs(4));
}

TEST_F(RecorderTest, AFolderThatVanishesIsOneWarning) {
  const SolverParameter solver_param = param();
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  recorder.attach();
  solver.step(2);
  fs::remove_all(run());
  folder_.write("runs/it-1", "a file in its place");
  EXPECT_TRUE(solver.solve());
  recorder.end(RunRecord::FINISHED);
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(RecorderTest, ARunThatFailsSaysWhy) {
  const SolverParameter solver_param = param(
      "base_lr: 10000 snapshot: 0 net_param { layer { name: 'squares' type: 'Power' bottom: 'ip' "
      "top: 'squares' power_param { power: 2 } } layer { name: 'sum' type: 'Reduction' "
      "bottom: 'squares' top: 'sum' loss_weight: 1 } }");
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  recorder.attach();
  std::string said;
  try {
    solver.solve();
    FAIL() << "the loss stays finite";
  } catch (const Error& error) {
    said = error.what();
    recorder.end(RunRecord::FAILED, said);
  }
  const auto all = records();
  EXPECT_EQ(all.back().kind(), RunRecord::END);
  EXPECT_EQ(all.back().reason(), RunRecord::FAILED);
  EXPECT_EQ(all.back().text(), said);
  EXPECT_THAT(warnings_, Not(Contains(HasSubstr(run()))));
  tensorboard::HParamsPluginData end;
  for (const auto& event : events()) {
    for (const auto& value : event.summary().value())
      if (value.tag() == "_hparams_/session_end_info")
        end.ParseFromString(value.metadata().plugin_data().content());
  }
  EXPECT_EQ(end.session_end_info().status(), tensorboard::SessionEndInfo::STATUS_FAILURE);
}

// As on_nan: ROLLBACK does, and programs by restore().
TEST_F(RecorderTest, ASolverThatGoesBackLeavesNoPointTwice) {
  const SolverParameter solver_param = param("display: 1");
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  recorder.attach();
  solver.step(7);
  solver.restore(folder_ / "s_iter_4.solverstate");
  solver.test();  // step() makes it anew
  ASSERT_TRUE(solver.solve());
  recorder.end(RunRecord::FINISHED);
  std::vector<int> train, test;
  for (const RunRecord& one : records()) {
    if (one.kind() == RunRecord::TRAIN) train.push_back(one.iteration());
    if (one.kind() == RunRecord::TEST) test.push_back(one.iteration());
  }
  EXPECT_THAT(train, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(test, ElementsAre(0, 4, 8, 10));
  EXPECT_THAT(places(), Contains(Place(RunRecord::RESUME, 4)));
  expect_events_equal_records();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RecorderTest, ARollbackLeadsTheLinksBack) {
  const SolverParameter solver_param =
      param("snapshot: 2 max_iter: 9 on_nan: ROLLBACK test_interval: 1000");
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  int failures = 0;
  std::string last;
  solver.before_iteration = [&] {
    if (solver.iteration() != 7 || failures == 2) return;
    ++failures;
    solver.net().layer("ip").params()[0]->data.change<float>()[0] = NAN;
  };
  solver.on_note = [&](const std::string& note) { last = note; };
  solver.on_iteration = [&](const IterationReport& report) {
    if (failures == 2 && report.iteration == 4) {
      EXPECT_EQ(fs::canonical(path("snapshots/last.solverstate")).filename(),
                "s_iter_4.solverstate");
    }
  };
  recorder.attach();
  ASSERT_TRUE(solver.solve());
  recorder.end(RunRecord::FINISHED);
  EXPECT_THAT(last, HasSubstr("the snapshot of iteration 4")) << "the second failure";
  std::vector<int> snapshots;
  for (const RunRecord& one : records())
    if (one.kind() == RunRecord::SNAPSHOT) snapshots.push_back(one.iteration());
  EXPECT_THAT(snapshots, ElementsAre(0, 2, 4, 6, 8, 9));
  EXPECT_EQ(fs::canonical(path("snapshots/last.solverstate")).filename(), "s_iter_9.solverstate");
  EXPECT_THAT(warnings_, SizeIs(2)) << "the two rollbacks";
}

TEST_F(RecorderTest, TwoDoNotWriteOneRun) {
  const SolverParameter solver_param = param();
  Context of = context();
  Solver solver(solver_param, of);
  const RunInfo info = describe_run(solver, solver_param);
  const Recorder recorder(solver, solver_param, info, run());
  EXPECT_TRUE(is_run_alive(run()));
  expect_error([&] { const Recorder other(solver, solver_param, info, run(), {.resumed = true}); },
               {run(), "another process"});
  expect_error([&] { const Recorder other(solver, solver_param, info, folder_ / "none"); },
               {folder_ / "none", "No such file"});
}

}  // namespace
}  // namespace crema
