#include "solver/average_precision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

constexpr ApVersion kAll[] = {ApVersion::eleven_point, ApVersion::max_integral,
                              ApVersion::integral};

/// Detections by falling score.
std::vector<ScoredDetection> found(const std::vector<int>& right) {
  std::vector<ScoredDetection> detections;
  for (const int one : right) {
    detections.push_back({1.0 - 0.01 * static_cast<double>(detections.size()), one != 0});
  }
  return detections;
}

// Precision 1, 1/2, 2/3, 1/2, 3/5 at recall 1/4, 1/4, 1/2, 1/2, 3/4.
TEST(AveragePrecision, ByHand) {
  const std::vector<ScoredDetection> five = found({1, 0, 1, 0, 1});
  EXPECT_DOUBLE_EQ(average_precision(five, 4, ApVersion::integral), (1 + 2. / 3 + 3. / 5) / 4);
  EXPECT_DOUBLE_EQ(average_precision(five, 4, ApVersion::max_integral), (1 + 2. / 3 + 3. / 5) / 4);
  // 1 for recall 0, 0.1, 0.2; 2/3 for 0.3, 0.4, 0.5; 3/5 for 0.6, 0.7; 0 from 0.8 on.
  EXPECT_DOUBLE_EQ(average_precision(five, 4, ApVersion::eleven_point),
                   (3 * 1 + 3 * 2. / 3 + 2 * 3. / 5) / 11);
}

// Precision 0, 1/2, 2/3: later points are better than earlier ones.
TEST(AveragePrecision, TheHighestPrecisionFromARecallOn) {
  const std::vector<ScoredDetection> three = found({0, 1, 1});
  EXPECT_DOUBLE_EQ(average_precision(three, 2, ApVersion::integral), (1. / 2 + 2. / 3) / 2);
  EXPECT_DOUBLE_EQ(average_precision(three, 2, ApVersion::max_integral), 2. / 3);
  EXPECT_DOUBLE_EQ(average_precision(three, 2, ApVersion::eleven_point), 2. / 3);
}

TEST(AveragePrecision, AllOrNothing) {
  for (const ApVersion version : kAll) {
    EXPECT_DOUBLE_EQ(average_precision(found({1, 1, 1}), 3, version), 1);
    EXPECT_DOUBLE_EQ(average_precision(found({0, 0}), 3, version), 0);
    EXPECT_DOUBLE_EQ(average_precision({}, 3, version), 0);
    EXPECT_DOUBLE_EQ(average_precision(found({0}), 0, version), 0);
  }
}

// As numbers of f32, 7 of 10 are less than 0.7.
TEST(AveragePrecision, RecallOfATenthIsReached) {
  for (int right = 1; right <= 10; ++right) {
    EXPECT_DOUBLE_EQ(average_precision(found(std::vector<int>(static_cast<size_t>(right), 1)), 10,
                                       ApVersion::eleven_point),
                     (right + 1) / 11.0)
        << right;
  }
}

TEST(AveragePrecision, TheOrderIsThatOfTheScores) {
  const std::vector<ScoredDetection> shuffled = {{0.2, true}, {0.9, true}, {0.5, false}};
  EXPECT_DOUBLE_EQ(average_precision(shuffled, 2, ApVersion::integral), (1 + 2. / 3) / 2);
  // Equal ones: the earlier is first.
  EXPECT_DOUBLE_EQ(average_precision({{0.5, false}, {0.5, true}}, 1, ApVersion::integral), 0.5);
  EXPECT_DOUBLE_EQ(average_precision({{0.5, true}, {0.5, false}}, 1, ApVersion::integral), 1);
}

TEST(AveragePrecision, MoreRightOnesThanBoxes) {
  expect_error(
      [] {
        average_precision(found({1, 1}), 1, ApVersion::integral);
      },
      {"2 detections are right", "1 true boxes"});
}

TEST(AveragePrecision, Names) {
  EXPECT_EQ(ap_version("11point"), ApVersion::eleven_point);
  EXPECT_EQ(ap_version("MaxIntegral"), ApVersion::max_integral);
  EXPECT_EQ(ap_version("Integral"), ApVersion::integral);
  expect_error([] { ap_version("11points"); }, {"ap_version '11points'", "11point"});
}

Tensor rows(const std::vector<float>& values) {
  Tensor tensor(Shape{1, 1, static_cast<int64_t>(values.size() / 5), 5}, DType::f32);
  std::ranges::copy(values, tensor.overwrite<float>());
  return tensor;
}

TEST(DetectionScores, SumsUpBatches) {
  DetectionScores scores;
  EXPECT_EQ(scores.mean(ApVersion::integral), std::nullopt);
  // Class 3 has detections but no boxes, class 2 boxes but no detections.
  scores.add(rows({-1, 1, 1,   -1, -1,  //
                   -1, 2, 1,   -1, -1,  //
                   -1, 3, 0,   -1, -1,  //
                   0,  1, 0.5, 1,  0,   //
                   0,  3, 0.5, 0,  1}));
  scores.add(rows({-1, 1, 1,     -1, -1,  //
                   -1, 2, 2,     -1, -1,  //
                   -1, 3, 0,     -1, -1,  //
                   0,  1, 0.75,  0,  1,   //
                   1,  1, 0.625, 0,  0,   // of a difficult box: neither right nor wrong
                   1,  1, 0.25,  1,  0}));
  const auto classes = scores.classes(ApVersion::integral);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].label, 1);
  EXPECT_EQ(classes[0].boxes, 2);
  EXPECT_EQ(classes[0].detections, 3);
  EXPECT_DOUBLE_EQ(classes[0].average_precision, (1. / 2 + 2. / 3) / 2);
  EXPECT_EQ(classes[1].label, 2);
  EXPECT_EQ(classes[1].boxes, 3);
  EXPECT_DOUBLE_EQ(classes[1].average_precision, 0);
  EXPECT_DOUBLE_EQ(*scores.mean(ApVersion::integral), (1. / 2 + 2. / 3) / 4);
  expect_error([&] { scores.add(Tensor(Shape{1, 1, 2, 7}, DType::f32)); }, {"1x1x2x7"});
}

// --- In a solver
// -----------------------------------------------------------------------------------

/// A net that learns nothing of interest, and a test net with detections that its inputs give.
const char* const kNet = R"(
  train_net_param {
    layer { name: "x" type: "DummyData" top: "x" dummy_data_param {
            shape { dim: 1 dim: 1 } data_filler { type: "constant" value: 1 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
            inner_product_param { num_output: 1 weight_filler { type: "constant" value: 1 } } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "x" top: "loss" }
  }
  test_net_param {
    layer { name: "det" type: "Input" top: "det" input_param { shape { dim: 1 dim: 1 dim: 2 dim: 7 } } }
    layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 3 dim: 8 } } }
    layer { name: "eval" type: "DetectionEvaluate" bottom: "det" bottom: "truth" top: "eval"
            detection_evaluate_param { num_classes: 3 } }
  }
  base_lr: 0.1 lr_policy: "fixed" test_iter: 4 test_interval: 100 snapshot_after_train: false )";

SolverParameter solver_param(const std::string& more) {
  SolverParameter param;
  parse_text_proto(kNet + more, "solver", param);
  return param;
}

/// Each of four batches has one right detection of two boxes of class 1, and a miss of class 2.
void fill(Net& net) {
  const std::vector<float> detections = {0, 1, 0.5, 0, 0, 1, 0.5, 0, 2, 0.5, 0, 0, 1, 0.25};
  const std::vector<float> truth = {0,   1, 0, 0, 0, 1, 0.5, 0, 0, 1, 1, 0,
                                    0.5, 1, 1, 0, 0, 2, 0,   0, 0, 1, 1, 0};
  std::ranges::copy(detections, net.input("det").overwrite<float>());
  std::ranges::copy(truth, net.input("truth").overwrite<float>());
}

TEST(DetectionSolver, ReportsTheMeanAveragePrecision) {
  Context context;
  for (const std::string version : {"11point", "MaxIntegral", "Integral"}) {
    SCOPED_TRACE(version);
    Solver solver(solver_param("eval_type: 'detection' show_per_class_result: true ap_version: '" +
                               version + "'"),
                  context);
    fill(*solver.test_nets()[0]);
    const std::vector<TestReport> reports = solver.test();
    ASSERT_EQ(reports.size(), 1U);
    ASSERT_EQ(reports[0].outputs.size(), 1U);
    EXPECT_EQ(reports[0].outputs[0].name, "eval");
    // Of class 1, precision is 1 up to a recall of 1/2; of class 2, 0.
    const double precision = version == "11point" ? 6. / 11 : 0.5;
    EXPECT_DOUBLE_EQ(reports[0].outputs[0].value, precision / 2);
    ASSERT_EQ(reports[0].classes.size(), 2U);
    EXPECT_EQ(reports[0].classes[0].label, 1);
    EXPECT_DOUBLE_EQ(reports[0].classes[0].average_precision, precision);
    EXPECT_EQ(reports[0].classes[1].label, 2);
    EXPECT_DOUBLE_EQ(reports[0].classes[1].average_precision, 0);
  }
}

TEST(DetectionSolver, WithoutEvalTypeToo) {
  Context context;
  Solver solver(solver_param(""), context);
  fill(*solver.test_nets()[0]);
  const std::vector<TestReport> reports = solver.test();
  ASSERT_EQ(reports.at(0).outputs.size(), 1U);
  EXPECT_DOUBLE_EQ(reports[0].outputs[0].value, 0.25);
  EXPECT_TRUE(reports[0].classes.empty());
}

TEST(DetectionSolver, KeepsTheBestSnapshot) {
  const TempFolder folder;
  Context context;
  SolverParameter param = solver_param("snapshot_best: 'eval'");
  param.set_snapshot_prefix(folder.path("run"));
  Solver solver(param, context);
  fill(*solver.test_nets()[0]);
  std::vector<std::string> snapshots;
  solver.on_snapshot = [&](const std::string& path) { snapshots.push_back(path); };
  solver.test();
  EXPECT_EQ(snapshots.size(), 1U);
}

TEST(DetectionSolver, Errors) {
  const auto refuses = [](const std::string& more, std::initializer_list<std::string_view> parts) {
    Context context;
    expect_error([&] { Solver(solver_param(more), context); }, parts);
  };
  refuses("ap_version: 'VOC'", {"ap_version 'VOC'", "MaxIntegral"});
  refuses("eval_type: 'segmentation'", {"eval_type", "segmentation", "detection"});
  SolverParameter param = solver_param("eval_type: 'detection'");
  auto* net = param.mutable_test_net_param(0);
  net->mutable_layer()->DeleteSubrange(2, 1);
  Context context;
  expect_error([&] { Solver(param, context); }, {"eval_type", "test net 0", "DetectionEvaluate"});
}

}  // namespace
}  // namespace crema
