// Trainings with a Recorder for tests: a small net that learns digits of a counting database, in a
// folder of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/text_format.hpp"
#include "monitor/event_file.hpp"
#include "monitor/recorder.hpp"
#include "monitor/run_folder.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/database.hpp"

namespace crema::test {

/// Kind and iteration of a record.
using Place = std::pair<RunRecord::Kind, int>;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    write_counting_database(folder_ / "images", 10, 3, 4, 5);
    std::filesystem::create_directories(run());
  }

  std::string run() const { return folder_ / "runs/it-1"; }
  std::string path(const std::string& name) const { return file_of_run(run(), name); }

  SolverParameter param(const std::string& more = "") const {
    SolverParameter made;
    parse_text_proto(
        text(
            "net_param { name: 'it' "
            "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '",
            folder_ / "images",
            "' batch_size: 5 backend: LMDB } transform_param { scale: 0.01 } }"
            "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
            " convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: 'xavier' } } }"
            "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }"
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' "
            " inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }"
            "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' "
            " top: 'accuracy' include { phase: TEST } }"
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
            " top: 'loss' } } test_iter: 2 test_interval: 4 base_lr: 0.05 momentum: 0.9 "
            "lr_policy: 'fixed' display: 3 max_iter: 10 snapshot: 4 snapshot_prefix: '",
            folder_ / "s", "' "),
        "solver.prototxt", made);
    if (more.empty()) return made;
    SolverParameter others;
    parse_text_proto(more, "more.prototxt", others);
    made.MergeFrom(others);
    return made;
  }
  Context context() {
    return Context({.threads = 1,
                    .tune = false,
                    .logger = [this](Severity severity, const std::string& message) {
                      if (severity == Severity::warning) warnings_.push_back(message);
                    }});
  }
  static SolverOptions keeping() {
    SolverOptions options;
    options.keep_scores = true;
    return options;
  }
  /// The whole run.
  void train(const SolverParameter& solver_param) {
    Context of = context();
    Solver solver(solver_param, of, keeping());
    Recorder recorder(solver, solver_param, describe_run(solver, solver_param), run());
    recorder.attach();
    EXPECT_TRUE(solver.solve());
    recorder.end(RunRecord::FINISHED);
  }

  std::vector<RunRecord> records() const { return read_run_records(run()); }
  std::vector<Place> places() const {
    std::vector<Place> all;
    for (const RunRecord& one : records()) all.emplace_back(one.kind(), one.iteration());
    return all;
  }
  std::vector<tensorboard::Event> events() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(run()))
      if (entry.path().filename().string().starts_with(kEventsPrefix))
        files.insert(entry.path().string());
    std::vector<tensorboard::Event> all;
    for (const std::string& file : files)
      for (auto& event : read_events(file)) all.push_back(std::move(event));
    return all;
  }
  /// The points of each curve, as readers of events see them: START makes void what is before it.
  std::map<std::string, std::vector<std::pair<int64_t, float>>> curves() const {
    std::map<std::string, std::vector<std::pair<int64_t, float>>> all;
    for (const auto& event : events()) {
      if (event.session_log().status() == tensorboard::SessionLog::START) {
        for (auto& [tag, points] : all)
          std::erase_if(points, [&](const auto& point) { return point.first >= event.step(); });
      }
      for (const auto& value : event.summary().value()) {
        if (value.value_case() == tensorboard::Summary::Value::kSimpleValue)
          all[value.tag()].emplace_back(event.step(), value.simple_value());
      }
    }
    return all;
  }
  void expect_events_equal_records() const {
    std::map<std::string, std::vector<std::pair<int64_t, float>>> expected;
    for (const RunRecord& one : records()) {
      if (one.kind() == RunRecord::TRAIN)
        expected["train/loss"].emplace_back(one.iteration(), static_cast<float>(one.loss()));
      if (one.kind() == RunRecord::TEST)
        expected["test/accuracy"].emplace_back(one.iteration(),
                                               static_cast<float>(one.outputs().at("accuracy")));
    }
    auto found = curves();
    for (const auto& [tag, points] : expected) EXPECT_EQ(found[tag], points) << tag;
  }

  ScratchFolder folder_;
  std::vector<std::string> warnings_;
};

/// A run that ends behind `stop` iterations as if it were killed, and one that goes on from the
/// snapshot of `from`.
class ResumedTest : public RecorderTest {
 protected:
  void run_killed(int stop) {
    Context of = context();
    Solver solver(param(), of, keeping());
    Recorder recorder(solver, param(), describe_run(solver, param()), run());
    recorder.attach();
    solver.step(stop);
  }
  void go_on(int from) {
    Context of = context();
    Solver solver(param(), of, keeping());
    solver.restore(text(folder_ / "s", "_iter_", from, ".solverstate"));
    EXPECT_EQ(solver.run_folder(), run()) << "the state names it";
    Recorder recorder(solver, param(), describe_run(solver, param()), run(), {.resumed = true});
    recorder.attach();
    EXPECT_TRUE(solver.solve());
    recorder.end(RunRecord::FINISHED);
  }
  std::map<Place, std::pair<double, double>> values() const {
    std::map<Place, std::pair<double, double>> all;
    for (const RunRecord& one : records()) {
      if (one.kind() != RunRecord::TRAIN && one.kind() != RunRecord::TEST) continue;
      const bool is_new =
          all.emplace(Place(one.kind(), one.iteration()), std::pair(one.loss(), one.test_loss()))
              .second;
      EXPECT_TRUE(is_new) << one.ShortDebugString();
    }
    return all;
  }
};

}  // namespace crema::test
