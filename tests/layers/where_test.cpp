#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase where(const Input& c, const Input& x, const Input& z) {
  return {.layer = "layer { type: 'Where' }", .bottoms = {c, x, z}};
}

TEST(Where, TakesOneOrTheOther) {
  LayerRun run(
      where(given({4}, {0, 1, -2, NAN}), given({4}, {1, 2, 3, 4}), given({4}, {5, 6, 7, 8})));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(5, 2, 3, 4));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(run.bottom_diff(2), ElementsAre(1, 0, 0, 0));
}

TEST(Where, AllThreeBroadcast) {
  LayerRun run(where(given({2, 1}, {1, 0}), given({3}, {1, 2, 3}), given({}, {9})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3, 9, 9, 9));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(1, 2, 3));
  EXPECT_THAT(run.bottom_diff(2), ElementsAre(15));
}

TEST(Where, TheConditionHasNoGradient) {
  LayerRun run(where(labels({2, 3}, 2), uniform({2, 3}), uniform({2, 3})));
  EXPECT_FALSE(run.layer().can_propagate(0));
  EXPECT_TRUE(run.layer().can_propagate(1));
  EXPECT_TRUE(run.layer().can_propagate(2));
}

TEST(Where, GradientsAndEngines) {
  const std::vector<Shape> shapes = {{2, 3, 4}, {4}, {}, {3, 1}, {2, 1, 1}, {1, 3, 4}};
  for (const Shape& c : shapes) {
    for (const Shape& x : shapes) {
      for (const Shape& z : {Shape{2, 3, 4}, Shape{}, Shape{3, 1}}) {
        const LayerCase each = where(labels(c, 2), uniform(x), uniform(z));
        check_gradients(each);
        check_engines(each);
      }
    }
  }
  check_engines(where(labels({70001}, 2), uniform({70001}), uniform({1})), {1e-4, 1e-4});
}

TEST(Where, Errors) {
  expect_error([&] { LayerRun run(where(uniform({2}), uniform({3}), uniform({}))); },
               {"'bottom0' (2)", "'bottom1' (3)", "2 and 3"});
}

}  // namespace
}  // namespace crema::test
