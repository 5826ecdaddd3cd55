// PriorBox and PriorBoxClustered. Further values: the cases priorbox_* of tests/golden/ssd.
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

LayerCase prior_box(const std::string& settings, const Shape& map = {1, 1, 2, 2},
                    const Shape& image = {1, 3, 20, 40}, const std::string& type = "PriorBox") {
  return {.layer = "layer { type: '" + type + "' prior_box_param { " + settings + " } }",
          .bottoms = {uniform(map), uniform(image)}};
}

TEST(PriorBox, OneSquareAtEachPosition) {
  LayerRun run(prior_box("min_size: 4 variance: 0.5"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 2, 16}));
  // Centres at x 10 and 30, y 5 and 15.
  const std::vector<double> boxes = {
      8.0 / 40, 3.0 / 20,  12.0 / 40, 7.0 / 20,  28.0 / 40, 3.0 / 20,  32.0 / 40, 7.0 / 20,
      8.0 / 40, 13.0 / 20, 12.0 / 40, 17.0 / 20, 28.0 / 40, 13.0 / 20, 32.0 / 40, 17.0 / 20};
  std::vector<double> expected = boxes;
  expected.insert(expected.end(), 16, 0.5);
  expect_close(run.top(0), expected, {1e-7, 1e-7}, "boxes");
}

TEST(PriorBox, FractionsOfSizesAreDropped) {
  LayerRun fraction(prior_box("min_size: 4.9 max_size: 9.9")),
      whole(prior_box("min_size: 4 max_size: 9"));
  fraction.forward();
  whole.forward();
  EXPECT_EQ(fraction.top(0), whole.top(0));
}

TEST(PriorBox, OrderOfTheSizes) {
  LayerRun run(prior_box("min_size: 4 max_size: 9 aspect_ratio: 4", {1, 1, 1, 1}, {1, 3, 10, 10}),
               {.dtype = DType::f64});
  run.forward();
  std::vector<double> sides;
  for (size_t k = 0; k < 4; ++k) {
    sides.push_back((run.top(0)[4 * k + 2] - run.top(0)[4 * k]) * 10);
    sides.push_back((run.top(0)[4 * k + 3] - run.top(0)[4 * k + 1]) * 10);
  }
  expect_close(sides, {4, 4, 6, 6, 8, 2, 2, 8}, {1e-12, 1e-12}, "sides");
}

TEST(PriorBox, ChangesWithTheShapes) {
  LayerRun run(prior_box("min_size: 4"));
  run.reshape({uniform({1, 1, 3, 1}), uniform({1, 3, 30, 10})});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 2, 12}));
  LayerRun fresh(prior_box("min_size: 4", {1, 1, 3, 1}, {1, 3, 30, 10}));
  fresh.forward();
  EXPECT_EQ(run.top(0), fresh.top(0));
  // The image alone.
  run.reshape({uniform({1, 1, 3, 1}), uniform({1, 3, 60, 10})});
  run.forward();
  EXPECT_NE(run.top(0), fresh.top(0));
}

TEST(PriorBox, EveryEngine) {
  check_engines(prior_box("min_size: 4 max_size: 9 aspect_ratio: 2 clip: true", {2, 16, 3, 5},
                          {2, 3, 30, 50}));
  check_engines(
      prior_box("width: 4 height: 9", {2, 16, 3, 5}, {2, 3, 30, 50}, "PriorBoxClustered"));
}

TEST(PriorBoxClustered, TheGivenBoxes) {
  LayerRun run(prior_box("width: 4.5 width: 10 height: 2 height: 5 step: 8 offset: 0", {1, 1, 1, 2},
                         {1, 3, 10, 20}, "PriorBoxClustered"),
               {.dtype = DType::f64});
  run.forward();
  const std::vector<double> boxes(run.top(0).begin(), run.top(0).begin() + 16);
  expect_close(boxes,
               {-2.25 / 20, -0.1, 2.25 / 20, 0.1, -0.25, -0.25, 0.25, 0.25,  //
                5.75 / 20, -0.1, 10.25 / 20, 0.1, 0.15, -0.25, 0.65, 0.25},
               {1e-12, 1e-12}, "boxes");
}

TEST(PriorBox, WrongSettings) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(settings);
    expect_error([&] { LayerRun(prior_box(settings)); }, parts);
  };
  refuses("", {"min_size is missing", "min_size: 30"});
  refuses("min_size: 0.5", {"min_size 0.5", "below one pixel"});
  refuses("min_size: 4 max_size: 3", {"max_size 3", "min_size, 4"});
  refuses("min_size: 4 min_size: 5 max_size: 6", {"1 values of max_size for 2"});
  refuses("min_size: 4 aspect_ratio: 0", {"aspect_ratio 0"});
  refuses("min_size: 4 variance: 1 variance: 2", {"2 values of variance"});
  refuses("min_size: 4 variance: 0", {"variance 0"});
  refuses("min_size: 4 img_size: 10 img_h: 10", {"mean the same"});
  refuses("min_size: 4 img_h: 10", {"give both"});
  refuses("min_size: 4 step: 2 step_h: 2", {"mean the same"});
  refuses("min_size: 4 step: 0", {"step of 0"});
  expect_error(
      [] {
        LayerRun(prior_box("width: 4", {1, 1, 1, 1}, {1, 1, 8, 8}, "PriorBoxClustered"));
      },
      {"1 values of width and 0 of height"});
  expect_error(
      [] {
        LayerRun(prior_box("min_size: 4", {1, 2}, {1, 1, 8, 8}));
      },
      {"bottom0", "1x2"});
}

}  // namespace
}  // namespace crema::test
