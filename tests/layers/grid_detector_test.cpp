// RegionLoss, Yolov3 and their outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double cross_entropy(double v, double t) {
  return -t * std::log(sigmoid(v)) - (1 - t) * std::log(1 - sigmoid(v));
}

std::string region(const std::string& settings, const std::string& num = "num: 2") {
  return text("layer { type: 'RegionLoss' bottom: 'v' bottom: 'label' region_loss_param { ",
              "num_class: 2 ", num, " biases: 1 biases: 1 biases: 0.5 biases: 1.5 ", settings,
              " } }");
}
std::string yolov3(const std::string& settings, const std::string& mask = "mask: 0 mask: 2") {
  return text("layer { type: 'Yolov3' bottom: 'v' bottom: 'label' yolov3_param { num_class: 2 ",
              "num: 2 anchors_scale: 8 biases: 8 biases: 8 biases: 40 biases: 40 biases: 4 ",
              "biases: 12 ", mask, " ", settings, " } }");
}

// A grid of 1 x 2 cells and two anchor boxes of 7 values: 28 values, cell by cell within each.
const Shape kGrid = {1, 14, 1, 2};
Input grid_values() {
  std::vector<double> values(28);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1 * static_cast<double>(i % 7) - 0.25;
  return given(kGrid, values);
}
double at(const Input& grid, int anchor, int attribute, int cell) {
  return grid.values[static_cast<size_t>((anchor * 7 + attribute) * 2 + cell)];
}
/// In cell 1; the second anchor box, 0.5 x 1.5 cells, fits it best. Class 1.
const Input kTruth = given({1, 5}, {1, 0.8, 0.4, 0.2, 0.9});

TEST(RegionLoss, Values) {
  // Nothing overlaps by more than 0.99, so that all other places are told that nothing is there.
  const Input v = grid_values();
  LayerRun run({.layer = region("rescore: 0 thresh: 0.99 object_scale: 3 noobject_scale: 0.75 "
                                "class_scale: 2 coord_scale: 1.5"),
                .bottoms = {v, kTruth}},
               {.dtype = DType::f64});
  run.forward();
  const auto square = [](double x) { return x * x; };
  double loss =
      1.5 / 2 *
      (square(sigmoid(at(v, 1, 0, 1)) - 0.6) + square(sigmoid(at(v, 1, 1, 1)) - 0.4) +
       square(at(v, 1, 2, 1) - std::log(0.4 / 0.5)) + square(at(v, 1, 3, 1) - std::log(0.9 / 1.5)));
  loss += 3. / 2 * square(sigmoid(at(v, 1, 4, 1)) - 1);
  const double e0 = std::exp(at(v, 1, 5, 1)), e1 = std::exp(at(v, 1, 6, 1));
  loss -= 2 * std::log(e1 / (e0 + e1));
  for (const auto& [anchor, cell] : {std::pair(0, 0), std::pair(0, 1), std::pair(1, 0)})
    loss += 0.75 / 2 * square(sigmoid(at(v, anchor, 4, cell)));
  EXPECT_NEAR(run.top(0)[0], loss, 1e-12);
}

TEST(Yolov3, Values) {
  const Input v = grid_values();
  LayerRun run({.layer = yolov3("thresh: 0.99 object_scale: 3 noobject_scale: 0.75 class_scale: 2 "
                                "coord_scale: 1.5"),
                .bottoms = {v, kTruth}},
               {.dtype = DType::f64});
  run.forward();
  const auto square = [](double x) { return x * x; };
  double loss = 1.5 * (2 - 0.2 * 0.9) *
                (cross_entropy(at(v, 1, 0, 1), 0.6) + cross_entropy(at(v, 1, 1, 1), 0.4) +
                 square(at(v, 1, 2, 1) - std::log(0.4 / 0.5)) / 2 +
                 square(at(v, 1, 3, 1) - std::log(0.9 / 1.5)) / 2);
  loss += 3 * cross_entropy(at(v, 1, 4, 1), 1);
  loss += 2 * (cross_entropy(at(v, 1, 5, 1), 0) + cross_entropy(at(v, 1, 6, 1), 1));
  for (const auto& [anchor, cell] : {std::pair(0, 0), std::pair(0, 1), std::pair(1, 0)})
    loss += 0.75 * cross_entropy(at(v, anchor, 4, cell), 0);
  EXPECT_NEAR(run.top(0)[0], loss, 1e-12);
  // The anchor box that fits best is of another scale: nothing is there.
  LayerRun other({.layer = yolov3("thresh: 0.99", "mask: 0 mask: 1"), .bottoms = {v, kTruth}},
                 {.dtype = DType::f64});
  other.forward();
  loss = 0;
  for (const int place : {0, 1, 2, 3}) loss += cross_entropy(at(v, place / 2, 4, place % 2), 0);
  EXPECT_NEAR(other.top(0)[0], loss, 1e-12);
}

TEST(RegionLoss, TheScoreOfAnObjectIsItsOverlap) {
  // The predicted box is the true one but for its height, which is half: an overlap of 0.5.
  Input v = given(kGrid, std::vector<double>(28, 0));
  const double w = 0.4 / 0.5, h = 0.45 / 1.5;
  v.values[(7 + 2) * 2 + 1] = std::log(w);
  v.values[(7 + 3) * 2 + 1] = std::log(h);
  const Input truth = given({1, 1, 1, 8}, {0, 2, 0, 0.65, 0.05, 0.85, 0.95, 0});
  LayerRun run({.layer = region("rescore: 1 noobject_scale: 0 coord_scale: 0 class_scale: 0"),
                .bottoms = {v, truth}},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 0, 1e-12);  // sigmoid(0) is 0.5, the overlap
  LayerRun one({.layer = region("rescore: 0 noobject_scale: 0 coord_scale: 0 class_scale: 0"),
                .bottoms = {v, truth}},
               {.dtype = DType::f64});
  one.forward();
  EXPECT_NEAR(one.top(0)[0], 0.125, 1e-12);
}

TEST(RegionLoss, RowsOfEdgesAndOfCentres) {
  const Input v = uniform({2, 14, 3, 4});
  // Image 1 has one box, and image 0 one whose centre lies outside.
  const Input edges = given({1, 1, 3, 8}, {1,   2,   0,   0.1, 0.2, 0.5, 0.8, 0,  0,  1,  0,  0.9,
                                           0.2, 1.3, 0.4, 0,   -1,  -1,  -1,  -1, -1, -1, -1, -1});
  const Input centres = given(
      {2, 2, 5}, {0, 0, 0, 0, 0, 0, 1.1, 0.3, 0.4, 0.2, 1, 0.3, 0.5, 0.4, 0.6, 0, 0, 0, 0, 0});
  for (const std::string& layer : {region(""), yolov3("")}) {
    LayerRun a({.layer = layer, .bottoms = {v, edges}}, {.dtype = DType::f64});
    LayerRun b({.layer = layer, .bottoms = {v, centres}}, {.dtype = DType::f64});
    a.forward();
    b.forward();
    EXPECT_NEAR(a.top(0)[0], b.top(0)[0], 1e-12);
    EXPECT_GT(a.top(0)[0], 0);
  }
}

TEST(RegionLoss, OverlapAboveTheThresholdCostsNothing) {
  // All predictions are 0: the boxes of the first anchor box are half the image each, and
  // the true box is that of cell 0, but belongs to the other anchor box of another cell.
  const Input v = given(kGrid, std::vector<double>(28, 0));
  const Input truth = given({1, 5}, {0, 0.25, 0.5, 0.5, 1});
  const auto loss = [&](const std::string& settings) {
    LayerRun run({.layer = region("object_scale: 0 coord_scale: 0 class_scale: 0 " + settings),
                  .bottoms = {v, truth}});
    run.forward();
    return run.top(0)[0];
  };
  // The true box belongs to anchor box 0 of cell 0; the box of anchor box 1 there overlaps it by
  // 0.25 * 1 / (0.25 * 1.5 + 0.5 - 0.25) = 0.4.
  EXPECT_NEAR(loss("thresh: 0.41"), 3 * 0.5 / 8, 1e-6);
  EXPECT_NEAR(loss("thresh: 0.39"), 2 * 0.5 / 8, 1e-6);
}

TEST(GridLoss, Gradients) {
  const Input edges =
      given({1, 1, 4, 8}, {0, 1, 0, 0.1, 0.2, 0.5,  0.8, 0, 1, 2, 0, 0.3, 0.3, 0.6, 0.45, 0,
                           1, 1, 1, 0.6, 0.5, 0.95, 1,   0, 1, 2, 2, 0.6, 0.5, 0.9, 1,    0});
  const Input v = uniform({2, 14, 3, 4});
  for (const std::string& layer :
       {region("rescore: 0"), region("rescore: 0 softmax: 0 thresh: 0.5"),
        region("rescore: 0 bias_match: 0 coord_scale: 2"), yolov3(""),
        yolov3("thresh: 0.3 object_scale: 4 noobject_scale: 0.1"), yolov3("", "mask: 1 mask: 0")}) {
    check_gradients({.layer = layer, .bottoms = {v, edges}}, {.bottoms = {0}});
    check_engines({.layer = layer, .bottoms = {v, edges}});
  }
  check_engines({.layer = region("rescore: 1"), .bottoms = {v, edges}});
}

TEST(GridLoss, ImagesWithoutBoxes) {
  const Input none = given({1, 1, 1, 8}, std::vector<double>(8, -1));
  LayerRun run({.layer = yolov3(""), .bottoms = {given(kGrid, std::vector<double>(28, 0)), none}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 4 * std::log(2), 1e-6);
}

TEST(GridLoss, Errors) {
  const auto refuses = [](const std::string& layer, const std::vector<Input>& bottoms,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run({.layer = layer, .bottoms = bottoms});
          run.forward();
        },
        parts);
  };
  const Input v = grid_values();
  refuses(region(""), {uniform({1, 13, 1, 2}), kTruth}, {"1x13x1x2", "N x 14 x H x W"});
  refuses(region(""), {v, given({1, 5}, {2, 0.5, 0.5, 0.1, 0.1})}, {"row 0", "label 2", "[0, 2)"});
  refuses(region(""), {v, given({1, 1, 1, 8}, {0, 0, 0, 0.1, 0.1, 0.2, 0.2, 0})},
          {"label 0", "[1, 3)"});
  refuses(region(""), {v, given({1, 1, 1, 8}, {1, 1, 0, 0.1, 0.1, 0.2, 0.2, 0})},
          {"image 1", "0 to 0"});
  refuses(region(""), {v, given({1, 5}, {0, 0.5, 0.5, -0.1, 0.1})}, {"-0.1 wide"});
  refuses(region(""), {v, given({1, 1, 1, 8}, {0, 1, 0, 0.3, 0.1, 0.2, 0.2, 0})},
          {"row 0", "xmax", "0.3"});
  refuses(region(""), {v, given({1, 1, 1, 8}, {0, 1, 0, 0.1, 0.1, std::nan(""), 0.2, 0})},
          {"row 0", "coordinate nan"});
  refuses(region(""), {v, given({1, 5}, {0, std::nan(""), 0.5, 0.1, 0.1})}, {"no number"});
  refuses(region(""), {v, given({1, 4}, {0, 0.5, 0.5, 0.1})}, {"1x4", "no true boxes"});
  refuses(region("", "num: 3"), {v, kTruth}, {"num is 3", "2 anchor boxes"});
  refuses(region("biases: 2"), {v, kTruth}, {"biases has 5 numbers"});
  refuses(region("biases: 2 biases: -1"), {v, kTruth}, {"anchor box 2", "-1"});
  refuses(region("coords: 5"), {v, kTruth}, {"coords 5"});
  refuses(region("softmax_tree: 'a'"), {v, kTruth}, {"softmax_tree"});
  refuses(region("thresh: -1"), {v, kTruth}, {"thresh is -1"});
  refuses(yolov3("", "mask: 0 mask: 3"), {v, kTruth}, {"anchor box 3", "biases has 3"});
  refuses(yolov3("", "mask: 0"), {v, kTruth}, {"num is 2", "mask has 1"});
  refuses(yolov3("", "mask: 2 mask: 2"), {v, kTruth}, {"anchor box 2", "twice"});
  refuses("layer { type: 'Yolov3' bottom: 'v' bottom: 'label' yolov3_param { anchors_scale: 0 } }",
          {v, kTruth}, {"anchors_scale is 0"});
}

std::string region_output(const std::string& settings) {
  return text("layer { type: 'RegionDetectionOutput' region_detection_output_param { ",
              "num_classes: 2 num_box: 2 biases: 1 biases: 1 biases: 0.5 biases: 1.5 ", settings,
              " } }");
}
std::string yolov3_output(const std::string& settings) {
  return text("layer { type: 'Yolov3DetectionOutput' bottom: 'a' bottom: 'b' ",
              "yolov3_detection_output_param { num_classes: 2 num_box: 1 mask: 1 mask: 0 ",
              "anchors_scale: 8 anchors_scale: 4 biases: 8 biases: 8 biases: 4 biases: 12 ",
              settings, " } }");
}

/// Objects of both anchor boxes of cell 1 alone, whose first class is likelier.
Input objects() {
  Input v = given(kGrid, std::vector<double>(28, 0));
  for (const size_t anchor : {0, 1}) {
    v.values[(anchor * 7 + 4) * 2] = -20;
    v.values[(anchor * 7 + 4) * 2 + 1] = anchor == 0 ? 2 : 1;
    v.values[(anchor * 7 + 5) * 2 + 1] = 3;
  }
  return v;
}

TEST(RegionDetectionOutput, Values) {
  LayerRun run({.layer = region_output("nms_threshold: 0.45 confidence_threshold: 0.01"),
                .bottoms = {objects()}});
  run.forward();
  ASSERT_EQ(run.top_blob(0).shape(), (Shape{1, 1, 4, 7}));
  const double likely = sigmoid(3), rare = 1 - likely;
  // Of the first anchor box (0.5 x 1 of the image), and of the second (0.25 x 1.5): they overlap by
  // 0.4. Labels are classes + 1.
  expect_close(run.top(0), {0, 1, sigmoid(2) * likely, 0.5,   0,     1,     1,     //
                            0, 1, sigmoid(1) * likely, 0.625, -0.25, 0.875, 1.25,  //
                            0, 2, sigmoid(2) * rare,   0.5,   0,     1,     1,     //
                            0, 2, sigmoid(1) * rare,   0.625, -0.25, 0.875, 1.25},
               {1e-6, 0}, "rows");
  LayerRun suppressed({.layer = region_output("nms_threshold: 0.39 confidence_threshold: 0.1"),
                       .bottoms = {objects()}});
  suppressed.forward();
  EXPECT_THAT(suppressed.top(0), testing::SizeIs(7));
  EXPECT_FALSE(run.layer().can_propagate(0));
}

TEST(Yolov3DetectionOutput, Values) {
  // One anchor box each: 4 x 12 pixels in cells of 8, then 8 x 8 pixels in cells of 4.
  Input a = given({1, 7, 1, 2}, std::vector<double>(14, 0));
  Input b = given({1, 7, 2, 4}, std::vector<double>(56, 0));
  for (size_t cell = 0; cell < 2; ++cell) a.values[4 * 2 + cell] = -20;
  for (size_t cell = 0; cell < 8; ++cell) b.values[4 * 8 + cell] = -20;
  a.values[4 * 2 + 1] = 2;  // cell 1
  a.values[5 * 2 + 1] = 3;  // class 0
  a.values[6 * 2 + 1] = -20;
  b.values[4 * 8 + 6] = 1;  // row 1, column 2
  b.values[5 * 8 + 6] = -20;
  b.values[6 * 8 + 6] = 0.5;  // class 1
  LayerRun run({.layer = yolov3_output(""), .bottoms = {a, b}});
  run.forward();
  expect_close(run.top(0),
               {0, 1, sigmoid(2) * sigmoid(3), 0.625, -0.25, 0.875, 1.25,  //
                0, 2, sigmoid(1) * sigmoid(0.5), 0.375, 0.25, 0.875, 1.25},
               {1e-6, 0}, "rows");
}

TEST(GridOutput, NothingFoundIsARowForEachImage) {
  for (const std::string& layer : {region_output("confidence_threshold: 1")}) {
    LayerRun run({.layer = layer, .bottoms = {uniform({2, 14, 3, 3})}});
    run.forward();
    EXPECT_EQ(run.top(0), (std::vector<double>{0, -1, -1, -1, -1, -1, -1,  //
                                               1, -1, -1, -1, -1, -1, -1}));
  }
}

TEST(GridOutput, EveryEngine) {
  check_engines({.layer = region_output("confidence_threshold: 0.2"),
                 .bottoms = {uniform({3, 14, 5, 4}, -2, 2)}});
  check_engines({.layer = yolov3_output("confidence_threshold: 0.2"),
                 .bottoms = {uniform({2, 7, 5, 4}, -2, 2), uniform({2, 7, 10, 8}, -2, 2)}});
}

TEST(GridOutput, Errors) {
  const auto refuses = [](const std::string& layer, const std::vector<Input>& bottoms,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run({.layer = layer, .bottoms = bottoms});
          run.forward();
        },
        parts);
  };
  Input bad = objects();
  bad.values[(7 + 6) * 2 + 1] = std::nan("");
  refuses(region_output(""), {bad}, {"NaN", "cell 1", "anchor box 1"});
  refuses(region_output("confidence_threshold: 2"), {objects()}, {"confidence_threshold 2"});
  refuses(region_output("nms_threshold: -1"), {objects()}, {"nms_threshold -1"});
  refuses(region_output("nms_threshold: 45"), {objects()}, {"nms_threshold 45", "0 to 1"});
  refuses(region_output(""), {uniform({1, 15, 1, 2})}, {"N x 14 x H x W"});
  refuses(yolov3_output("anchors_scale: 2"), {objects(), objects()}, {"anchors_scale has 3"});
  refuses(yolov3_output("mask: 2"), {objects(), objects()}, {"mask has 3 numbers"});
  // 4 * 2^30 is 0 in 32 bits, and the square of 2^32 - 1 is beyond 64 bits.
  const auto numbers = [](const char* groups, const char* each) {
    return text("layer { type: 'Yolov3DetectionOutput' bottom: 'a' bottom: 'b' ",
                "yolov3_detection_output_param { biases: 8 biases: 8 anchors_scale: 1 ",
                "anchors_scale: 1 anchors_scale: 1 anchors_scale: 1 mask_group_num: ", groups,
                " num_box: ", each, " } }");
  };
  refuses(numbers("4", "1073741824"), {objects(), objects()}, {"mask has 0", "need 4294967296"});
  refuses(numbers("4294967295", "4294967295"), {objects(), objects()}, {"has 4", "4294967295"});
  refuses(
      "layer { type: 'Yolov3DetectionOutput' bottom: 'a' yolov3_detection_output_param { "
      "num_classes: 2 num_box: 2 mask: 1 mask: 1 mask_group_num: 1 anchors_scale: 8 biases: 8 "
      "biases: 8 biases: 4 biases: 12 } }",
      {objects()}, {"anchor box 1", "twice"});
  refuses(yolov3_output("mask_group_num: 0"), {objects(), objects()}, {"mask_group_num 0"});
  refuses(yolov3_output(""), {uniform({1, 7, 1, 2}), uniform({2, 7, 2, 4})}, {"batch size"});
}

}  // namespace
}  // namespace crema::test
