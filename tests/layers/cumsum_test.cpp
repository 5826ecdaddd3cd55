#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase cumsum(const std::string& settings, const Input& x) {
  return {.layer = text("layer { type: 'CumSum' cumsum_param { ", settings, " } }"),
          .bottoms = {x}};
}
std::vector<double> summed(const std::string& settings, const Input& x) {
  LayerRun run(cumsum(settings, x));
  run.forward();
  return run.top(0);
}

TEST(CumSum, Directions) {
  const Input x = given({4}, {1, 2, 3, 4});
  EXPECT_THAT(summed("", x), ElementsAre(1, 3, 6, 10));
  EXPECT_THAT(summed("exclusive: true", x), ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(summed("reverse: true", x), ElementsAre(10, 9, 7, 4));
  EXPECT_THAT(summed("reverse: true exclusive: true", x), ElementsAre(9, 7, 4, 0));
}

TEST(CumSum, Axes) {
  const Input x = given({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(summed("", x), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(summed("axis: 0", x), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(summed("axis: -2 reverse: true", x), ElementsAre(5, 7, 9, 4, 5, 6));
}

TEST(CumSum, GradientsAndEngines) {
  for (const char* direction :
       {"", " exclusive: true", " reverse: true", " exclusive: true reverse: true"}) {
    for (const char* axis : {"axis: 0", "axis: 1", "axis: -1"}) {
      check_gradients(cumsum(text(axis, direction), uniform({3, 4, 5})));
      check_engines(cumsum(text(axis, direction), uniform({3, 4, 5})));
    }
  }
  check_engines(cumsum("axis: 1", uniform({3, 50, 301})));
  check_engines(cumsum("axis: 1", uniform({301, 60})));
}

TEST(CumSum, EmptyBatchesAndNewShapes) {
  LayerRun run(cumsum("axis: 1", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}, Shape{3, 1, 5}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), shape);
  }
}

TEST(CumSum, Errors) {
  expect_error([] { LayerRun run(cumsum("axis: 2", uniform({2, 3}))); }, {"2", "2x3"});
  expect_error([] { LayerRun run(cumsum("", uniform({}))); }, {"scalar"});
}

}  // namespace
}  // namespace crema::test
