// DetectionEvaluate. Further values: the cases detectioneval_* and net_ssd_test_0 of
// tests/golden/ssd.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "core/carried_state.hpp"
#include "support/layer_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

using Rows = std::vector<std::vector<double>>;

std::vector<double> flat(const Rows& rows) {
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

LayerCase evaluate(const std::string& settings, const Rows& detections, const Rows& truth) {
  const auto blob = [](const Rows& rows, int64_t width) {
    return given({1, 1, static_cast<int64_t>(rows.size()), width}, flat(rows));
  };
  return {.layer = "layer { type: 'DetectionEvaluate' detection_evaluate_param { num_classes: 3 " +
                   settings + " } }",
          .bottoms = {blob(detections, 7), blob(truth, 8)},
          .phase = Phase::test};
}

Rows rows_of(LayerRun& run) {
  run.forward();
  Rows rows;
  for (size_t r = 0; r < run.top(0).size() / 5; ++r) {
    rows.emplace_back(run.top(0).begin() + 5 * r, run.top(0).begin() + 5 * r + 5);
  }
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, static_cast<int64_t>(rows.size()), 5}));
  return rows;
}
Rows rows_of(const LayerCase& c) {
  LayerRun run(c, {.dtype = DType::f64});
  return rows_of(run);
}

const Rows kTruth = {
    {0, 1, 0, 0, 0, 0.5, 1, 0}, {0, 1, 1, 0.5, 0, 1, 1, 1}, {1, 2, 0, 0, 0, 1, 1, 0}};

TEST(DetectionEvaluate, EachTrueBoxIsFoundOnce) {
  EXPECT_EQ(rows_of(evaluate("",
                             {{0, 1, 0.5, 0, 0, 0.5, 0.75},     // right, but the second one
                              {0, 1, 0.75, 0, 0, 0.5, 1},       // right
                              {0, 1, 0.25, 0.25, 0, 0.75, 1},   // overlaps both by 1 / 3
                              {0, 1, 0.125, 0.5, 0.25, 1, 1}},  // right
                             kTruth)),
            (Rows{{-1, 1, 2, -1, -1},
                  {-1, 2, 1, -1, -1},
                  {0, 1, 0.75, 1, 0},
                  {0, 1, 0.5, 0, 1},
                  {0, 1, 0.25, 0, 1},
                  {0, 1, 0.125, 1, 0}}));
}

TEST(DetectionEvaluate, DifficultBoxesNeedNotCount) {
  EXPECT_EQ(rows_of(evaluate("evaluate_difficult_gt: false",
                             {{0, 1, 0.5, 0.5, 0, 1, 1}, {0, 1, 0.25, 0.5, 0, 1, 1}}, kTruth)),
            (Rows{{-1, 1, 1, -1, -1}, {-1, 2, 1, -1, -1}, {0, 1, 0.5, 0, 0}, {0, 1, 0.25, 0, 0}}));
}

TEST(DetectionEvaluate, OverlapOfJustTheThresholdIsRight) {
  const Rows half = {{1, 2, 0.5, 0, 0, 1, 0.5}};
  EXPECT_EQ(rows_of(evaluate("overlap_threshold: 0.5", half, kTruth))[2],
            (std::vector<double>{1, 2, 0.5, 1, 0}));
  EXPECT_EQ(rows_of(evaluate("overlap_threshold: 0.501", half, kTruth))[2],
            (std::vector<double>{1, 2, 0.5, 0, 1}));
}

TEST(DetectionEvaluate, ClassesAndImagesWithoutTrueBoxes) {
  EXPECT_EQ(rows_of(evaluate(
                "", {{3, 1, 0.25, 0, 0, 1, 1}, {3, 1, 0.5, 0, 0, 1, 1}, {0, 2, 0.125, 0, 0, 1, 1}},
                {{0, 1, 0, 0, 0, 1, 1, 0}})),
            (Rows{{-1, 1, 1, -1, -1},
                  {-1, 2, 0, -1, -1},
                  {0, 2, 0.125, 0, 1},
                  {3, 1, 0.25, 0, 1},
                  {3, 1, 0.5, 0, 1}}));
}

TEST(DetectionEvaluate, PaddingIsPassedOver) {
  // An image without detections has a row of label -1, as DetectionOutput writes it.
  LayerRun run(evaluate("", {{0, -1, -1, -1, -1, -1, -1}, {-1, 1, 0.5, 0, 0, 1, 1}},
                        {{-1, -1, -1, -1, -1, -1, -1, -1}, {0, 1, 0, 0, 0, 1, 1, 0}}));
  EXPECT_EQ(rows_of(run), (Rows{{-1, 1, 1, -1, -1}, {-1, 2, 0, -1, -1}}));
}

TEST(DetectionEvaluate, AmongEqualConfidencesTheEarlierRowIsFirst) {
  const Rows rows =
      rows_of(evaluate("", {{1, 2, 0.5, 0, 0, 1, 0.75}, {1, 2, 0.5, 0, 0, 1, 1}}, kTruth));
  EXPECT_EQ(rows[2], (std::vector<double>{1, 2, 0.5, 1, 0}));
  EXPECT_EQ(rows[3], (std::vector<double>{1, 2, 0.5, 0, 1}));
}

TEST(DetectionEvaluate, OtherBackgrounds) {
  const Rows none = rows_of(evaluate("background_label_id: 4294967295", {{0, 0, 0.5, 0, 0, 1, 1}},
                                     {{0, 0, 0, 0, 0, 1, 1, 0}}));
  EXPECT_EQ(none,
            (Rows{{-1, 0, 1, -1, -1}, {-1, 1, 0, -1, -1}, {-1, 2, 0, -1, -1}, {0, 0, 0.5, 1, 0}}));
}

// In pixels a box covers its last row and column: an overlap of 0.475 is one of 0.5.
TEST(DetectionEvaluate, InPixelsOfTheImages) {
  const TempFolder folder;
  std::ofstream(folder.path("sizes.txt")) << "a 9 19\nb 1000 1000\nc 19 9\n";
  const std::string settings = text("name_size_file: '", folder.path("sizes.txt"), "'");
  const Rows truth = {{0, 1, 0, 0, 0, 1, 1, 0}, {2, 1, 0, 0, 0, 1, 1, 0}};
  const double half = 9.0 / 19;
  const Rows detections = {{0, 1, 0.5, 0, 0, half, 1}, {2, 1, 0.5, 0, 0, 1, half}};
  LayerRun run(evaluate(settings, detections, truth), {.dtype = DType::f64});
  const Rows rows = rows_of(run);
  EXPECT_EQ(rows[2][3], 1);
  EXPECT_EQ(rows[3][3], 1);
  EXPECT_EQ(rows_of(evaluate("", detections, truth))[2][3], 0);
  // The next batch is of image a again, as all three have passed: the SSD fork counts only images
  // with detections, and takes b for it.
  EXPECT_EQ(rows_of(run), rows);
}

// An image without true boxes and detections has its line too. What DetectionOutput writes for a
// batch without boxes tells of it: the next image is b.
TEST(DetectionEvaluate, ImagesWithoutBoxesTakeTheirLines) {
  const TempFolder folder;
  std::ofstream(folder.path("sizes.txt")) << "a 1000 1000\nb 9 19\nc 1000 1000\nd 9 19\n";
  const std::string settings = text("name_size_file: '", folder.path("sizes.txt"), "'");
  const auto empty = [&](int64_t images) {
    Rows rows;
    for (int64_t i = 0; i < images; ++i) {
      rows.push_back({static_cast<double>(i), -1, -1, -1, -1, -1, -1});
    }
    return evaluate(settings, rows, {{-1, -1, -1, -1, -1, -1, -1, -1}});
  };
  // Right in pixels of b and d only.
  const LayerCase half =
      evaluate(settings, {{0, 1, 0.5, 0, 0, 9.0 / 19, 1}}, {{0, 1, 0, 0, 0, 1, 1, 0}});
  LayerRun run(half, {.dtype = DType::f64});
  const auto right = [&](const LayerCase& c) {
    run.reshape(c.bottoms);
    const Rows rows = rows_of(run);
    return rows.size() == 2 ? -1 : rows[2][3];
  };
  EXPECT_EQ(right(empty(1)), -1);  // a
  EXPECT_EQ(right(half), 1);       // b
  EXPECT_EQ(right(empty(2)), -1);  // c, d: the last images of a batch
  EXPECT_EQ(right(empty(1)), -1);  // a
  EXPECT_EQ(right(half), 1);       // b
  EXPECT_EQ(right(half), 0);       // c
}

TEST(DetectionEvaluate, CarriesThePlaceInTheSizes) {
  const TempFolder folder;
  std::ofstream(folder.path("sizes.txt")) << "a 1000 1000\nb 9 19\n";
  const LayerCase half = evaluate(text("name_size_file: '", folder.path("sizes.txt"), "'"),
                                  {{0, 1, 0.5, 0, 0, 9.0 / 19, 1}}, {{0, 1, 0, 0, 0, 1, 1, 0}});
  LayerRun run(half, {.dtype = DType::f64}), other(half, {.dtype = DType::f64});
  auto& to = dynamic_cast<CarriesState&>(other.layer());
  EXPECT_TRUE(to.carries());
  EXPECT_EQ(rows_of(run)[2][3], 0);
  to.carry(dynamic_cast<CarriesState&>(run.layer()).carried());
  EXPECT_EQ(rows_of(other)[2][3], 1);
  to.carry({});
  EXPECT_EQ(rows_of(other)[2][3], 0);
  std::vector<Tensor> wrong;
  wrong.emplace_back(Shape{2}, DType::f64);
  expect_error([&] { to.carry(wrong); }, {"shape 2", "name_size_file"});
  LayerRun relative(evaluate("", {{0, 1, 0.5, 0, 0, 1, 1}}, kTruth));
  EXPECT_FALSE(dynamic_cast<CarriesState&>(relative.layer()).carries());
}

// In the SSD fork disjoint boxes share a pixel: it finds boxes of one pixel everywhere.
TEST(DetectionEvaluate, DisjointBoxesInPixelsDoNotOverlap) {
  const TempFolder folder;
  std::ofstream(folder.path("sizes.txt")) << "a 10 10\n";
  const Rows rows =
      rows_of(evaluate(text("name_size_file: '", folder.path("sizes.txt"), "'"),
                       {{0, 1, 0.5, 0.9, 0.9, 0.9, 0.9}}, {{0, 1, 0, 0.1, 0.1, 0.1, 0.1, 0}}));
  EXPECT_EQ(rows[2], (std::vector<double>{0, 1, 0.5, 0, 1}));
}

TEST(DetectionEvaluate, EveryEngine) {
  check_engines(evaluate("", {{0, 1, 0.5, 0, 0, 0.5, 0.75}, {1, 2, 0.75, 0, 0, 0.5, 1}}, kTruth));
}

TEST(DetectionEvaluate, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run(c);
          run.forward();
        },
        parts);
  };
  const Rows good = {{0, 1, 0.5, 0, 0, 1, 1}};
  refuses(evaluate("overlap_threshold: 0", good, kTruth), {"overlap_threshold 0"});
  refuses(evaluate("overlap_threshold: 1.5", good, kTruth), {"overlap_threshold 1.5"});
  refuses(evaluate("background_label_id: 3", good, kTruth), {"background_label_id 3", "0 to 2"});
  refuses(evaluate("resize_param { height: 1 width: 1 }", good, kTruth),
          {"resize_param", "name_size_file"});
  refuses(evaluate("", {{0, 3, 0.5, 0, 0, 1, 1}}, kTruth), {"row 0", "label 3", "0 to 2"});
  refuses(evaluate("", {{0, 0, 0.5, 0, 0, 1, 1}}, kTruth), {"label 0", "background"});
  refuses(evaluate("", {{0.5, 1, 0.5, 0, 0, 1, 1}}, kTruth), {"image 0.5"});
  refuses(evaluate("", good, {{-2, 1, 0, 0, 0, 1, 1, 0}}), {"'bottom1'", "image -2"});
  refuses(evaluate("", good, {{0, 1.5, 0, 0, 0, 1, 1, 0}}), {"'bottom1'", "label 1.5"});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refuses(evaluate("", {{0, 1, nan, 0, 0, 1, 1}}, kTruth), {"row 0", "NaN"});
  refuses(evaluate("", good, {{0, 1, 0, 0, 0, nan, 1, 0}}),
          {"row 0 of 'bottom1'", "coordinate nan"});
  refuses(evaluate("", good, {{-1, 0, 0, 0, 0, 0, 0, 0}, {2, 1, 0, 0.5, 0, 0.25, 1, 0}}),
          {"row 1 of 'bottom1'", "image 2", "0.25", "xmax"});
  refuses(evaluate("", {{0, 1, 0.5, 0, 0, 1, nan}}, kTruth),
          {"row 0 of 'bottom0'", "coordinate nan"});
  LayerCase c = evaluate("", good, kTruth);
  c.bottoms[1] = uniform({1, 1, 2, 7});
  refuses(c, {"'bottom1'", "1x1x2x7", "G x 8"});
  c = evaluate("", good, kTruth);
  c.layer = "layer { type: 'DetectionEvaluate' }";
  refuses(c, {"num_classes is missing"});
}

}  // namespace
}  // namespace crema::test
