// A detector as a whole: from a database with boxes through training to detections.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "crema/random.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/annotated.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

/// Convolutions of a small detector: a map of 6 x 6 places with two priors each.
constexpr const char* kTrunk = R"(
layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: 'msra' } } }
layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }
layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' convolution_param { num_output: 16 kernel_size: 5 pad: 2 stride: 2 weight_filler { type: 'msra' } } }
layer { name: 'r2' type: 'ReLU' bottom: 'c2' top: 'c2' }
layer { name: 'loc' type: 'Convolution' bottom: 'c2' top: 'loc' convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'loc_perm' type: 'Permute' bottom: 'loc' top: 'loc_perm' permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: 'loc_flat' type: 'Flatten' bottom: 'loc_perm' top: 'loc_flat' }
layer { name: 'conf' type: 'Convolution' bottom: 'c2' top: 'conf' convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'conf_perm' type: 'Permute' bottom: 'conf' top: 'conf_perm' permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: 'conf_flat' type: 'Flatten' bottom: 'conf_perm' top: 'conf_flat' }
layer { name: 'priors' type: 'PriorBox' bottom: 'c2' bottom: 'data' top: 'priors' prior_box_param { min_size: 6 max_size: 12 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
)";

/// Bright rectangles are of class 1, darker ones of class 2; one of each in every image.
AnnotatedDatum picture(uint64_t number) {
  Random random(11, 3, number);
  AnnotatedDatum datum = test::rectangle(24, 24, {}, {});
  std::vector<LabeledBox> boxes;
  for (int label = 1; label <= 2; ++label) {
    const auto side = [&] { return 7 + static_cast<int>(random.below(5)); };
    const int height = side(), width = side();
    // One in the upper half, one in the lower one.
    const int top =
        (label == 1 ? 0 : 12) + static_cast<int>(random.below(static_cast<uint64_t>(13 - height)));
    const int left = static_cast<int>(random.below(static_cast<uint64_t>(25 - width)));
    for (int c = 0; c < 3; ++c)
      for (int h = top; h < top + height; ++h)
        for (int w = left; w < left + width; ++w)
          (*datum.mutable_datum()->mutable_data())[static_cast<size_t>((c * 24 + h) * 24 + w)] =
              label == 1 ? '\xff' : '\x60';
    const Box box{double(left), double(top), double(left + width), double(top + height)};
    boxes.push_back({.label = label, .box = to_relative(box, {24, 24})});
  }
  set_boxes(boxes, datum);
  return datum;
}

std::string database(const test::ScratchFolder& folder, const std::string& name, uint64_t first,
                     int count) {
  std::vector<AnnotatedDatum> all;
  for (int i = 0; i < count; ++i) all.push_back(picture(first + static_cast<uint64_t>(i)));
  test::write_database(folder / name, test::annotated_records(all));
  return folder / name;
}

std::string data(const std::string& source, const std::string& transform,
                 const std::string& settings, const std::string& samplers) {
  return text(
      "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' "
      "transform_param { scale: 0.008 mean_value: 60 ",
      transform, " resize_param { height: 24 width: 24 } } data_param { source: '", source,
      "' backend: LMDB ", settings, " } annotated_data_param { ", samplers, " } }");
}

TEST(Detection, ADetectorLearnsFromADatabaseWithBoxes) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const test::ScratchFolder folder;
  const std::string train =
      data(database(folder, "train", 0, 200),
           "mirror: true expand_param { prob: 0.2 max_expand_ratio: 1.2 } emit_constraint { }",
           "batch_size: 8 shuffle: true",
           "batch_sampler { max_sample: 1 max_trials: 1 } batch_sampler { sampler { min_scale: 0.8 "
           "max_scale: 1 min_aspect_ratio: 0.8 max_aspect_ratio: 1.25 } sample_constraint { "
           "min_object_coverage: 0.9 } max_sample: 1 max_trials: 20 }");
  SolverParameter param;
  parse_text_proto(
      text("net_param { ", train, kTrunk,
           "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc_flat' bottom: 'conf_flat' "
           "bottom: 'priors' bottom: 'label' top: 'loss' multibox_loss_param { num_classes: 3 "
           "code_type: CENTER_SIZE } propagate_down: true propagate_down: true "
           "propagate_down: false propagate_down: false } } base_lr: 0.01 momentum: 0.9 "
           "lr_policy: 'multistep' gamma: 0.1 stepvalue: 300 max_iter: 360 snapshot_prefix: '",
           folder / "snap", "' snapshot_after_train: false"),
      "solver.prototxt", param);
  Context context({.seed = 7});
  Solver solver(param, context);
  std::vector<double> losses;
  solver.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  solver.solve();

  constexpr int kTests = 20;
  Net net(test::net_param(text(
              data(database(folder, "test", 1000, kTests), "", text("batch_size: ", kTests), ""),
              kTrunk,
              "layer { name: 'by_prior' type: 'Reshape' bottom: 'conf_flat' top: 'by_prior' "
              "reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }"
              "layer { name: 'prob' type: 'Softmax' bottom: 'by_prior' top: 'prob' "
              "softmax_param { axis: 2 } }"
              "layer { name: 'prob_flat' type: 'Flatten' bottom: 'prob' top: 'prob_flat' }"
              "layer { name: 'found' type: 'DetectionOutput' bottom: 'loc_flat' "
              "bottom: 'prob_flat' bottom: 'priors' top: 'found' detection_output_param { "
              "num_classes: 3 code_type: CENTER_SIZE keep_top_k: 20 "
              "confidence_threshold: 0.5 nms_param { nms_threshold: 0.45 top_k: 40 } } }"
              "layer { name: 'rows' type: 'DetectionEvaluate' bottom: 'found' "
              "bottom: 'label' top: 'rows' detection_evaluate_param { num_classes: 3 } }")),
          context, {.phase = Phase::test, .share_params_with = &solver.net()});
  net.forward();
  const std::vector<double> rows = test::values_of(net.blob("rows").data);
  int right = 0, wrong = 0;
  for (size_t at = 0; at + 5 <= rows.size(); at += 5) {
    if (rows[at] < 0) {
      EXPECT_EQ(rows[at + 2], kTests);  // true boxes of a class
      continue;
    }
    right += rows[at + 3] == 1;
    wrong += rows[at + 4] == 1;
  }
  EXPECT_GT(right, 2 * kTests * 9 / 10) << wrong << " wrong, loss " << losses.back();
  EXPECT_LT(wrong, 2 * kTests / 4);
}

// A set of three images in tests of two batches of one. Confidences and sizes tell the images
// apart: in pixels the box is right in image a only.
class DetectionPlaceTest : public ::testing::Test {
 protected:
  DetectionPlaceTest() {
    std::vector<AnnotatedDatum> all;
    for (const char value : {'\x20', '\x40', '\x60'}) {
      all.push_back(test::rectangle(1, 2, {}, {{.label = 1, .box = {0, 0, 1, 1}}}, 1));
      all.back().mutable_datum()->mutable_data()->assign(2, value);
    }
    test::write_database(folder_ / "db", test::annotated_records(all));
    std::ofstream(folder_ / "sizes.txt") << "a 9 19\nb 1000 1000\nc 1000 1000\n";
    std::ofstream(folder_ / "labels.prototxt") << "item { name: 'x' label: 1 }";
    const std::string sizes = text("name_size_file: '", folder_ / "sizes.txt", "'");
    parse_text_proto(
        text(R"(net_param {
layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' include { phase: TEST }
        transform_param { scale: 0.0078125 } data_param { batch_size: 1 backend: LMDB source: ')",
             folder_ / "db", R"(' } }
layer { name: 'conf' type: 'Flatten' bottom: 'data' top: 'conf' include { phase: TEST } }
layer { name: 'numbers' type: 'DummyData' top: 'loc' top: 'zero' top: 'x' top: 'one' top: 'variances'
        include { phase: TEST } dummy_data_param {
        shape { dim: 1 dim: 4 } shape { dim: 1 dim: 1 dim: 1 } shape { dim: 1 dim: 1 dim: 1 }
        shape { dim: 1 dim: 1 dim: 1 } shape { dim: 1 dim: 1 dim: 4 }
        data_filler { value: 0 } data_filler { value: 0 } data_filler { value: 0.49 }
        data_filler { value: 1 } data_filler { value: 0.1 } } }
layer { name: 'box' type: 'Concat' bottom: 'zero' bottom: 'zero' bottom: 'x' bottom: 'one' top: 'box'
        include { phase: TEST } concat_param { axis: 2 } }
layer { name: 'priors' type: 'Concat' bottom: 'box' bottom: 'variances' top: 'priors'
        include { phase: TEST } concat_param { axis: 1 } }
layer { name: 'found' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'priors'
        top: 'found' include { phase: TEST } detection_output_param { num_classes: 2
        save_output_param { output_format: 'ILSVRC' output_directory: ')",
             folder_ / "out", "' label_map_file: '", folder_ / "labels.prototxt", "' ", sizes,
             R"( } } }
layer { name: 'rows' type: 'DetectionEvaluate' bottom: 'found' bottom: 'label' top: 'rows'
        include { phase: TEST } detection_evaluate_param { num_classes: 2 )",
             sizes, R"( } }
layer { name: 'in' type: 'DummyData' top: 'in' include { phase: TRAIN } dummy_data_param {
        shape { dim: 1 dim: 2 } data_filler { value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'in' top: 'ip' include { phase: TRAIN }
        inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'in' top: 'loss'
        include { phase: TRAIN } } }
base_lr: 0.01 lr_policy: 'fixed' max_iter: 4 test_iter: 2 test_interval: 2 snapshot_prefix: ')",
             folder_ / "snap", "'"),
        "solver.prototxt", param_);
  }

  /// Trains on to the end. Returns the mean average precisions of the tests by iteration.
  static std::map<int, double> solve(Solver& solver) {
    std::map<int, double> precisions;
    solver.on_test = [&](const TestReport& report) {
      precisions[report.iteration] = report.outputs.at(0).value;
    };
    EXPECT_TRUE(solver.solve());
    return precisions;
  }
  /// The file of detections, which is removed.
  std::string written() const {
    const std::string path = folder_ / "out/detections.txt";
    std::ifstream in(path);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    std::filesystem::remove(path);
    return text;
  }

  test::ScratchFolder folder_;
  SolverParameter param_;
};

TEST_F(DetectionPlaceTest, StoppedAndResumedTestsGoOnWithTheirImages) {
  Context context;
  Solver straight(param_, context);
  const auto expected = solve(straight);
  // Images a and b; c and a; b and c. The wrong one has the higher confidence.
  EXPECT_EQ(expected, (std::map<int, double>{{0, 0.25}, {2, 0.25}, {4, 0}}));
  const std::string file = written();
  EXPECT_EQ(file, "a 1 0.25 0 0 9 9\nb 1 0.5 0 0 490 1000\nc 1 0.75 0 0 490 1000\n");

  Solver stopped(param_, context);
  // At iteration 2: before the iteration, before the test's first batch, before its second.
  int asked = 0;
  stopped.poll = [&] {
    return stopped.iteration() == 2 && ++asked == 3 ? SolverAction::stop : SolverAction::none;
  };
  EXPECT_FALSE(stopped.solve());
  EXPECT_EQ(written(), file) << "the set was complete with the first batch";
  stopped.poll = nullptr;
  const std::map<int, double> rest = {{2, 0.25}, {4, 0}};
  EXPECT_EQ(solve(stopped), rest);
  EXPECT_EQ(written(), file);

  Context other;
  Solver resumed(param_, other);
  resumed.restore(folder_ / "snap_iter_2.solverstate");
  EXPECT_EQ(solve(resumed), rest);
  EXPECT_EQ(written(), file);
}

/// A test net with these layers, tested over five batches.
TestReport tested(const std::string& layers, const std::string& settings = {}) {
  SolverParameter param;
  parse_text_proto(
      text("test_iter: 5 test_interval: 1 max_iter: 1 base_lr: 0.1 lr_policy: 'fixed' "
           "snapshot_after_train: false train_net_param { layer { name: 'x' type: 'DummyData' "
           "top: 'x' dummy_data_param { shape { dim: 1 } data_filler { type: 'constant' value: 1 "
           "} } } layer { name: 's' type: 'Silence' bottom: 'x' } } test_net_param { ",
           layers, " } ", settings),
      "solver", param);
  Context context;
  Solver solver(param, {}, context);
  return solver.test().at(0);
}

TEST(Detection, RowsOfDifferentNumberAreInNoMean) {
  const TestReport report = tested(R"(
      layer { name: 'v' type: 'DummyData' top: 'v' dummy_data_param { shape { dim: 8 } data_filler { type: 'uniform' min: -1 max: 1 } } }
      layer { name: 't' type: 'Threshold' bottom: 'v' top: 't' }
      layer { name: 'f' type: 'Filter' bottom: 'v' bottom: 't' top: 'f' }
      layer { name: 'f2' type: 'Filter' bottom: 'v' bottom: 't' top: 'f2' }
      layer { name: 'p' type: 'Power' bottom: 'f2' top: 'p' }
      layer { name: 'c' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 1 } data_filler { type: 'constant' value: 3 } } })");
  double constant = 0;
  for (const TestReport::Output& output : report.outputs) {
    EXPECT_NE(output.name, "f");
    EXPECT_NE(output.name, "p");
    if (output.name == "c") constant += output.value;
  }
  // Behind 'p', whose rows differ in number too.
  EXPECT_NEAR(constant, 3, 1e-6);
}

TEST(Detection, RowsOfDifferentNumberAreNoMeasureOfTheBestSnapshot) {
  const test::ScratchFolder folder;
  expect_error(
      [&] {
        tested(
            "layer { name: 'v' type: 'DummyData' top: 'v' dummy_data_param { shape { dim: 1 } "
            "data_filler { type: 'constant' value: 1 } } } "
            "layer { name: 'f' type: 'Filter' bottom: 'v' bottom: 'v' top: 'f' }",
            text("snapshot_best: 'f' snapshot_prefix: '", folder / "x", "'"));
      },
      {"snapshot_best 'f'", "another number of values", "DetectionEvaluate"});
}

TEST(Detection, AnOutputBehindRowsOfDifferentNumberIsNoMeasureOfTheBestSnapshot) {
  const test::ScratchFolder folder;
  const std::string layers = R"(
      layer { name: 'v' type: 'DummyData' top: 'v' dummy_data_param { shape { dim: 1 } data_filler { type: 'uniform' min: -1 max: 1 } } }
      layer { name: 't' type: 'Threshold' bottom: 'v' top: 't' }
      layer { name: 'f' type: 'Filter' bottom: 'v' bottom: 't' top: 'f' }
      layer { name: 'p' type: 'Power' bottom: 'f' top: 'p' })";
  expect_error(
      [&] { tested(layers, text("snapshot_best: 'p' snapshot_prefix: '", folder / "x", "'")); },
      {"snapshot_best 'p'", "in another", "name an output of one value"});
}

TEST(Detection, ClassesAreReportedWithTheNamesOfTheLabelMap) {
  const test::ScratchFolder folder;
  const std::string map = folder / "map.prototxt";
  std::ofstream(map) << "item { name: 'a' label: 1 display_name: 'A' } item { name: 'b' label: 2 }";
  const TestReport report = tested(text(data(database(folder, "db", 0, 5), "", "batch_size: 1",
                                             text("label_map_file: '", map, "'")),
                                        R"(layer { name: 's' type: 'Silence' bottom: 'data' }
                layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 7 } data_filler { type: 'constant' value: 0.5 } } }
                layer { name: 'z' type: 'Power' bottom: 'd' top: 'z' power_param { scale: 2 shift: -2 } }
                layer { name: 'e' type: 'DetectionEvaluate' bottom: 'z' bottom: 'label' top: 'e' detection_evaluate_param { num_classes: 3 } })"),
                                   "show_per_class_result: true");
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.classes[0].name, "A");
  EXPECT_EQ(report.classes[1].name, "b");
}

TEST(Detection, TrueBoxesThatNoLayerReadsAreNotReported) {
  const test::ScratchFolder folder;
  const TestReport report =
      tested(text(data(database(folder, "db", 0, 5), "", "batch_size: 1", ""),
                  "layer { name: 'p' type: 'Reduction' bottom: 'data' top: 'p' }"));
  ASSERT_EQ(report.outputs.size(), 1U);
  EXPECT_EQ(report.outputs[0].name, "p");
}

}  // namespace
}  // namespace crema
