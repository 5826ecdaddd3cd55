#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase grid_sample(const std::string& settings, const Input& x, const Input& grid) {
  return {.layer = text("layer { type: 'GridSample' grid_sample_param { ", settings, " } }"),
          .bottoms = {x, grid}};
}
/// Values of a 1 x 4 map of 1 2 3 4 at one point with row 0.
double at(const std::string& settings, double column) {
  LayerRun run(
      grid_sample(settings, given({1, 1, 1, 4}, {1, 2, 3, 4}), given({1, 1, 1, 2}, {column, 0})),
      {.dtype = DType::f64});
  run.forward();
  return run.top(0)[0];
}

TEST(GridSample, Coordinates) {
  // Centres of pixels, and points between them.
  EXPECT_DOUBLE_EQ(at("", -0.75), 1);
  EXPECT_DOUBLE_EQ(at("", 0.75), 4);
  EXPECT_DOUBLE_EQ(at("", 0), 2.5);
  EXPECT_DOUBLE_EQ(at("align_corners: true", -1), 1);
  EXPECT_DOUBLE_EQ(at("align_corners: true", 1), 4);
  EXPECT_DOUBLE_EQ(at("align_corners: true", 0), 2.5);
}

TEST(GridSample, OutsideOfTheMap) {
  // Pixel -0.5 half outside, and pixel 4.5.
  EXPECT_DOUBLE_EQ(at("", -1), 0.5);
  EXPECT_DOUBLE_EQ(at("padding: BORDER", -1), 1);
  EXPECT_DOUBLE_EQ(at("", 1.5), 0);
  EXPECT_DOUBLE_EQ(at("padding: BORDER", 1.5), 4);
  EXPECT_DOUBLE_EQ(at("padding: REFLECTION", 1.5), 3.5);
  EXPECT_DOUBLE_EQ(at("padding: REFLECTION align_corners: true", 1 + 2.0 / 3), 3);
  EXPECT_DOUBLE_EQ(at("padding: REFLECTION", 1000.25), at("padding: REFLECTION", 0.25));
  EXPECT_DOUBLE_EQ(at("", NAN), 0);
  EXPECT_DOUBLE_EQ(at("padding: BORDER", NAN), 1);
  EXPECT_DOUBLE_EQ(at("padding: BORDER", INFINITY), 4);
}

TEST(GridSample, NearestAndBicubic) {
  EXPECT_DOUBLE_EQ(at("mode: NEAREST", 0.2), 3);
  EXPECT_DOUBLE_EQ(at("mode: NEAREST", -0.5), 1) << "pixel 0.5: the even one";
  EXPECT_DOUBLE_EQ(at("mode: NEAREST", 0), 3) << "pixel 1.5: the even one";
  EXPECT_DOUBLE_EQ(at("mode: BICUBIC", 0), 2.5);
  EXPECT_DOUBLE_EQ(at("mode: BICUBIC padding: BORDER", 0.75), 4);
}

TEST(GridSample, ColumnsComeFirst) {
  LayerRun run(grid_sample("align_corners: true", given({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                           given({1, 1, 2, 2}, {1, -1, -1, 1})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 2, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(2, 3, 6, 7));
  run.set_top_diff(0, {1, 10, 100, 1000});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 1, 10, 0, 0, 100, 1000, 0));
}

TEST(GridSample, GradientsAndEngines) {
  for (const char* mode : {"BILINEAR", "NEAREST", "BICUBIC"}) {
    for (const char* padding : {"ZEROS", "BORDER", "REFLECTION"}) {
      for (const char* corners : {"", " align_corners: true"}) {
        const LayerCase c = grid_sample(text("mode: ", mode, " padding: ", padding, corners),
                                        uniform({2, 3, 4, 5}), uniform({2, 3, 2, 2}, -1.4, 1.4));
        check_gradients(c);
        check_engines(c);
      }
    }
  }
  check_engines(grid_sample("", uniform({2, 33, 9, 8}), uniform({2, 31, 30, 2}, -1.2, 1.2)));
}

TEST(GridSample, NearestGivesTheGridNoGradient) {
  const Input x = uniform({1, 1, 3, 3}), grid = uniform({1, 2, 2, 2});
  EXPECT_FALSE(LayerRun(grid_sample("mode: NEAREST", x, grid)).layer().can_propagate(1));
  EXPECT_TRUE(LayerRun(grid_sample("", x, grid)).layer().can_propagate(1));
}

TEST(GridSample, EmptyBatchesAndNewShapes) {
  LayerRun run(grid_sample("", uniform({2, 3, 4, 5}), uniform({2, 3, 2, 2})));
  for (const int64_t samples : {0, 3}) {
    run.reshape({uniform({samples, 2, 4, 5}), uniform({samples, 1, 6, 2})});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{samples, 2, 1, 6}));
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(GridSample, Errors) {
  const Input x = uniform({2, 3, 4, 5});
  refuses(grid_sample("", uniform({2, 3, 4}), uniform({2, 3, 2, 2})), {"'bottom0' (2x3x4)"});
  refuses(grid_sample("", uniform({2, 3, 0, 5}), uniform({2, 3, 2, 2})), {"2x3x0x5", "pixels"});
  refuses(grid_sample("", x, uniform({3, 3, 2, 2})), {"'bottom1' (3x3x2x2)", "2 samples"});
  refuses(grid_sample("", x, uniform({2, 3, 2, 3})), {"2x3x2x3"});
  refuses(grid_sample("", x, uniform({2, 3, 2})), {"2x3x2"});
}

}  // namespace
}  // namespace crema::test
