// What a training writes to its folder: all of it, once, and of a run that goes on.
#include "monitor/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crema/parameter_arena.hpp"
#include "monitor/recorder_run.hpp"

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
using testing::SizeIs;

TEST_F(RecorderTest, AWholeRunIsThere) {
  train(param());
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(places(), ElementsAre(Place(RunRecord::START, 0), Place(RunRecord::TEST, 0),
                                    Place(RunRecord::TRAIN, 1), Place(RunRecord::TRAIN, 4),
                                    Place(RunRecord::SNAPSHOT, 4), Place(RunRecord::TEST, 4),
                                    Place(RunRecord::TRAIN, 7), Place(RunRecord::SNAPSHOT, 8),
                                    Place(RunRecord::TEST, 8), Place(RunRecord::TRAIN, 10),
                                    Place(RunRecord::SNAPSHOT, 10), Place(RunRecord::TEST, 10),
                                    Place(RunRecord::END, 10)));
  const auto all = records();
  const RunRecord& train = all[3];
  EXPECT_GT(train.loss(), 0);
  EXPECT_EQ(train.outputs().at("loss"), train.loss());
  EXPECT_FLOAT_EQ(static_cast<float>(train.rate()), 0.05F);
  EXPECT_GT(train.images_per_second(), 0);
  EXPECT_GE(train.data_wait(), 0);
  EXPECT_LE(train.data_wait(), 1);
  EXPECT_GT(train.memory(), 1e6);
  EXPECT_GT(train.gradient_norm(), 0);
  EXPECT_EQ(train.epoch(), 2) << "4 iterations of 5 among 10 records";
  double before = 0;
  for (const RunRecord& one : all) {
    EXPECT_GE(one.time(), before);
    before = one.time();
    EXPECT_GT(one.wall(), 1e9);
  }
  EXPECT_EQ(all[5].outputs().count("accuracy"), 1U);
  EXPECT_GT(all[5].test_loss(), 0);
  EXPECT_EQ(all.back().reason(), RunRecord::FINISHED);
  expect_events_equal_records();
}

TEST_F(RecorderTest, InfoSaysWhatTheRunIs) {
  train(param("type: 'Adam' random_seed: 5"));
  const RunInfo info = read_run_info(run());
  EXPECT_EQ(info.name(), "it-1");
  EXPECT_EQ(info.net(), "it");
  EXPECT_EQ(info.seed(), 5U);
  EXPECT_EQ(info.device(), "CPU");
  EXPECT_EQ(info.threads(), 1);
  EXPECT_EQ(info.max_iterations(), 10);
  EXPECT_EQ(info.iterations_of_epoch(), 2);
  EXPECT_THAT(info.version(), testing::StartsWith("crema "));
  ASSERT_EQ(info.data_size(), 2) << "of the training net, and of the test net";
  EXPECT_EQ(info.data(0).source(), folder_ / "images");
  EXPECT_EQ(info.data(0).records(), 10);
  EXPECT_THAT(info.data(0).fingerprint(), testing::MatchesRegex("[0-9a-f]{16}"));
  std::map<std::string, std::string> settings;
  for (const auto& one : info.settings()) settings[one.name()] = one.value();
  EXPECT_EQ(settings.at("type"), "Adam");
  EXPECT_EQ(settings.at("base_lr"), "0.05");
  EXPECT_EQ(settings.at("test_iter"), "2");
  EXPECT_EQ(settings.at("net.conv.convolution_param.num_output"), "3");
  EXPECT_EQ(settings.at("net.conv.convolution_param.weight_filler.type"), "xavier");
  EXPECT_EQ(settings.at("net.data.data_param.backend"), "LMDB");
  EXPECT_EQ(settings.count("net.conv.bottom"), 0U);
  EXPECT_EQ(settings.count("net.accuracy.type"), 0U) << "a layer of the test net";
}

TEST_F(RecorderTest, TheFolderTrainsTheSameAgain) {
  const SolverParameter first = param("snapshot: 0 snapshot_after_train: false");
  train(first);
  NetParameter net;
  read_text_proto(path("net.prototxt"), net);
  EXPECT_EQ(net.name(), "it");
  EXPECT_EQ(net.layer_size(), 5) << "without what is for tests";
  Context of = context();
  Solver again(path("solver.prototxt"), of, {});
  std::vector<double> losses;
  again.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  ASSERT_TRUE(again.solve());
  std::vector<double> written;
  for (const RunRecord& one : records())
    if (one.kind() == RunRecord::TRAIN) written.push_back(one.loss());
  EXPECT_THAT(written, ElementsAre(losses[0], losses[3], losses[6], losses[9]));
  EXPECT_THAT(again.test_nets(), SizeIs(1));
}

TEST_F(RecorderTest, TheNormIsThatOfTheGradients) {
  const SolverParameter solver_param = param("iter_size: 2 loss_scale: 8");
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  recorder.attach();
  double squares = 0;
  solver.before_update = [&] {
    squares = 0;
    ParameterArena& arena = solver.net().params();
    arena.settle_gradients();
    for (int64_t i = 0; i < arena.size(); ++i) squares += std::pow(arena.diff().at(i), 2);
  };
  solver.step(1);
  const auto all = records();
  ASSERT_EQ(all.back().kind(), RunRecord::TRAIN);
  EXPECT_NEAR(all.back().gradient_norm(), std::sqrt(squares) / 16, 1e-6 * std::sqrt(squares));
}

TEST_F(RecorderTest, ARunThatIsRecordedTrainsTheSameBits) {
  const SolverParameter solver_param = param();
  train(solver_param);
  const std::string recorded = read_file(folder_ / "s_iter_10.caffemodel");
  Context of = context();
  Solver solver(solver_param, of);
  ASSERT_TRUE(solver.solve());
  EXPECT_EQ(read_file(folder_ / "s_iter_10.caffemodel"), recorded);
}

TEST_F(RecorderTest, OtherHooksAreCalledToo) {
  const SolverParameter solver_param = param("max_iter: 4");
  Context of = context();
  Solver solver(solver_param, of);
  std::vector<std::string> told;
  solver.on_iteration = [&](const IterationReport&) { told.emplace_back("iteration"); };
  solver.on_test = [&](const TestReport&) { told.emplace_back("test"); };
  solver.on_snapshot = [&](const std::string&) { told.emplace_back("snapshot"); };
  {
    Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
    recorder.on_folder_changed = [&] { told.emplace_back("folder"); };
    recorder.attach();
    recorder.attach();
    EXPECT_EQ(solver.run_folder(), run());
    solver.solve();
    recorder.end(RunRecord::FINISHED);
  }
  EXPECT_THAT(told, ElementsAre("test", "iteration", "iteration", "iteration", "iteration",
                                "snapshot", "test", "folder"));
  solver.step(1);
  EXPECT_EQ(told.back(), "iteration") << "the hooks are given back";
  EXPECT_EQ(records().back().kind(), RunRecord::END);
}

TEST_F(ResumedTest, NoPointIsThereTwice) {
  train(param());
  const auto expected = values();
  const auto expected_curves = curves();
  fs::remove_all(run());
  fs::create_directories(run());

  run_killed(10);
  EXPECT_THAT(places(), Contains(Place(RunRecord::TRAIN, 10)));
  go_on(4);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(values(), expected);
  // The file itself has no line twice, for readers who know nothing of runs.
  std::set<std::pair<int, int>> lines;
  std::string all = read_file(path("metrics.jsonl"));
  int count = 0;
  for (size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1, ++count) {
    RunRecord one;
    ASSERT_TRUE(parse_json_line(all.substr(begin, all.find('\n', begin) - begin), one));
    EXPECT_TRUE(lines.emplace(one.kind(), one.iteration()).second) << one.ShortDebugString();
  }
  EXPECT_GT(count, 10);
  expect_events_equal_records();
  for (const char* tag : {"train/loss", "test/accuracy", "train/gradient_norm"})
    EXPECT_EQ(curves()[tag], expected_curves.at(tag)) << tag;
  // The time goes on.
  double before = 0;
  for (const RunRecord& one : records()) {
    EXPECT_GE(one.time(), before) << one.ShortDebugString();
    before = one.time();
  }
  std::set<std::string> histograms;
  for (const ValueHistogram& one : read_run_histograms(run()))
    EXPECT_TRUE(
        histograms.insert(text(one.iteration(), one.layer(), one.parameter(), one.gradient()))
            .second)
        << one.ShortDebugString();
}

TEST_F(ResumedTest, TwiceFromTheSameSnapshot) {
  run_killed(10);
  go_on(4);
  go_on(4);
  values();  // checks that none is there twice
  expect_events_equal_records();
  int resumed = 0;
  for (const Place& place : places()) resumed += place.first == RunRecord::RESUME;
  EXPECT_EQ(resumed, 2);
}

TEST_F(ResumedTest, OfARunThatWasCutWithinALine) {
  run_killed(6);
  const std::string whole = read_file(path("metrics.jsonl"));
  fs::resize_file(path("metrics.jsonl"), whole.size() - 20);
  fs::resize_file(path("histograms.jsonl"), fs::file_size(path("histograms.jsonl")) - 20);
  go_on(4);
  EXPECT_THAT(values(), SizeIs(8));
  expect_events_equal_records();
  EXPECT_THAT(warnings_, IsEmpty());
}

// The disk was full when void lines were to be removed: the mark alone has to do.
TEST_F(ResumedTest, WhereVoidLinesCannotBeRemoved) {
  run_killed(10);
  const std::string before = read_file(path("metrics.jsonl"));
  go_on(4);
  const std::string after = read_file(path("metrics.jsonl"));
  const size_t mark = after.find("{\"kind\":\"RESUME\"");
  ASSERT_NE(mark, std::string::npos);
  std::ofstream(path("metrics.jsonl")) << before << after.substr(mark);
  EXPECT_THAT(values(), SizeIs(8));
}

TEST_F(RecorderTest, HistogramsAreOfWeightsAndGradients) {
  train(param());
  const auto all = read_run_histograms(run());
  std::set<std::pair<int, std::string>> seen;
  for (const ValueHistogram& one : all) {
    seen.emplace(one.iteration(),
                 text(one.layer(), "/", one.parameter(), one.gradient() ? " gradient" : ""));
    double count = one.not_finite();
    for (const double number : one.counts()) count += number;
    EXPECT_EQ(count, one.layer() == "conv" ? (one.parameter() == 0 ? 81 : 3)
                                           : (one.parameter() == 0 ? 180 : 10));
  }
  for (const char* name : {"conv/0", "conv/0 gradient", "conv/1", "ip/0", "ip/1 gradient"}) {
    EXPECT_THAT(seen, Contains(std::pair<int, std::string>(1, name))) << "of the first display";
    EXPECT_THAT(seen, Contains(std::pair<int, std::string>(10, name))) << "at the end";
  }
  std::set<std::string> tags;
  for (const auto& event : events())
    for (const auto& value : event.summary().value())
      if (value.has_histo()) tags.insert(value.tag());
  EXPECT_THAT(tags, Contains("weights/conv/0"));
  EXPECT_THAT(tags, Contains("gradients/ip/1"));
}

TEST_F(RecorderTest, ATestHasPicturesAndPredictions) {
  train(param());
  std::set<int64_t> steps;
  for (const auto& event : events()) {
    for (const auto& value : event.summary().value()) {
      if (value.has_image()) {
        steps.insert(event.step());
        EXPECT_EQ(value.tag(), "test_images");
        // 5 images of 5 x 4 in frames.
        EXPECT_EQ(value.image().width(), 5 * (5 + 2));
        EXPECT_EQ(value.image().height(), 4 + 2);
        EXPECT_THAT(value.image().encoded_image_string(), testing::StartsWith("\x89PNG"));
      }
      if (value.tag() != "test_predictions") continue;
      EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "text");
      EXPECT_THAT(value.tensor().string_val(0), HasSubstr("| 1 | 5 | "));
      EXPECT_THAT(value.tensor().string_val(0), HasSubstr("| 5 | 9 | "));
    }
  }
  EXPECT_THAT(steps, Contains(0)) << "the first test";
}

TEST_F(RecorderTest, TheGraphHasTheLayers) {
  train(param());
  tensorboard::GraphDef graph;
  for (const auto& event : events()) {
    if (event.has_graph_def()) {
      ASSERT_TRUE(graph.ParseFromString(event.graph_def()));
    }
  }
  ASSERT_EQ(graph.node_size(), 5);
  EXPECT_EQ(graph.node(0).op(), "Data");
  EXPECT_THAT(graph.node(2).input(), ElementsAre("conv"));
  EXPECT_THAT(graph.node(3).input(), ElementsAre("relu")) << "what ran in place";
  EXPECT_THAT(graph.node(4).input(), ElementsAre("ip", "data:1"));
  const auto& shape = graph.node(1).attr().at("_output_shapes").list().shape(0);
  ASSERT_EQ(shape.dim_size(), 4);
  EXPECT_EQ(shape.dim(0).size(), 5);
  EXPECT_EQ(shape.dim(3).size(), 3);
  EXPECT_THAT(graph.node(1).attr().at("settings").s(), HasSubstr("num_output: 3"));
}

TEST_F(RecorderTest, LinksLeadToTheSnapshots) {
  train(param("snapshot_best: 'loss'"));
  const auto target = [&](const char* name) {
    return fs::canonical(path("snapshots") + "/" + name).filename().string();
  };
  EXPECT_EQ(target("last.solverstate"), "s_iter_10.solverstate");
  EXPECT_EQ(target("last.caffemodel"), "s_iter_10.caffemodel");
  EXPECT_EQ(target("best.caffemodel"), "s_best.caffemodel");
  EXPECT_TRUE(fs::read_symlink(path("snapshots") + "/last.caffemodel").is_relative());
  // Moved together, they still lead there.
  fs::rename(folder_.path(), folder_.path().string() + "_moved");
  EXPECT_TRUE(fs::exists(folder_.path().string() + "_moved/runs/it-1/snapshots/last.caffemodel"));
  fs::rename(folder_.path().string() + "_moved", folder_.path());
  for (const RunRecord& one : records()) {
    if (one.kind() != RunRecord::SNAPSHOT) continue;
    EXPECT_EQ(one.state(), text(folder_ / "s", "_iter_", one.iteration(), ".solverstate"));
  }
}

TEST_F(RecorderTest, WithoutSnapshotBestTheBestIsThatOfItsOwnTest) {
  train(param());
  double best = -1;
  int iteration = -1;
  for (const RunRecord& one : records()) {
    if (one.kind() != RunRecord::TEST || one.iteration() == 0) continue;
    if (one.outputs().at("accuracy") <= best) continue;
    best = one.outputs().at("accuracy");
    iteration = one.iteration();
  }
  EXPECT_EQ(fs::canonical(path("snapshots/best.caffemodel")).filename().string(),
            text("s_iter_", iteration, ".caffemodel"));
}

TEST_F(ResumedTest, TheBestOfThePartBeforeCounts) {
  run_killed(7);
  // With a snapshot of iteration 0, whose test nothing is better than.
  RunRecord first;
  first.set_kind(RunRecord::SNAPSHOT);
  first.set_iteration(0);
  first.set_weights(folder_ / "s_iter_0.caffemodel");
  folder_.write("s_iter_0.caffemodel", "");
  std::string lines;
  for (RunRecord one : records()) {
    if (one.kind() == RunRecord::TEST && one.iteration() == 0)
      (*one.mutable_outputs())["accuracy"] = 2;
    lines += json_line(one) + "\n";
    if (one.kind() == RunRecord::START) lines += json_line(first) + "\n";
  }
  folder_.write("runs/it-1/metrics.jsonl", lines);
  go_on(4);
  EXPECT_EQ(fs::canonical(path("snapshots/best.caffemodel")).filename(), "s_iter_0.caffemodel");
}

TEST_F(RecorderTest, ALinkToWhatSnapshotKeepRemovedIsReplaced) {
  SolverParameter solver_param = param();
  solver_param.set_snapshot(1);
  solver_param.set_test_interval(1);
  solver_param.set_snapshot_keep(1);
  solver_param.set_base_lr(0);  // no test is better than the first
  train(solver_param);
  EXPECT_EQ(fs::canonical(path("snapshots/best.caffemodel")).filename(), "s_iter_10.caffemodel");
}

TEST_F(RecorderTest, OfAnErrorTheLeastIsTheBest) {
  SolverParameter solver_param = param();
  LayerParameter& error = *solver_param.mutable_net_param()->add_layer();
  parse_text_proto(
      "name: 'error' type: 'Power' bottom: 'loss' top: 'error' include { phase: TEST }", "layer",
      error);
  solver_param.mutable_net_param()->mutable_layer(4)->set_type("Silence");
  solver_param.mutable_net_param()->mutable_layer(4)->clear_top();
  train(solver_param);
  double least = HUGE_VAL;
  int iteration = -1;
  for (const RunRecord& one : records()) {
    if (one.kind() != RunRecord::TEST || one.iteration() == 0) continue;
    if (one.outputs().at("error") >= least) continue;
    least = one.outputs().at("error");
    iteration = one.iteration();
  }
  EXPECT_EQ(fs::canonical(path("snapshots/best.caffemodel")).filename().string(),
            text("s_iter_", iteration, ".caffemodel"));
}

TEST_F(RecorderTest, LengthsInEpochsAreIterations) {
  SolverParameter solver_param = param();
  solver_param.clear_max_iter();
  solver_param.clear_display();
  solver_param.set_max_epochs(100);
  Context of = context();
  Solver solver(solver_param, of);
  Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
  recorder.attach();
  solver.step(7);
  EXPECT_EQ(read_run_info(run()).max_iterations(), 200);
  std::vector<int> train;
  for (const RunRecord& one : records())
    if (one.kind() == RunRecord::TRAIN) train.push_back(one.iteration());
  EXPECT_THAT(train, ElementsAre(1, 3, 5, 7)) << "a hundred displays a run";
}

}  // namespace
}  // namespace crema
