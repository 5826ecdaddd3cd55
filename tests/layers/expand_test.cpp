#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase expand(const std::string& dims, const Input& x) {
  return {.layer = text("layer { type: 'Expand' expand_param { ", dims, " } }"), .bottoms = {x}};
}

TEST(Expand, RepeatsAlongAxesOfSize1) {
  LayerRun run(expand("dim: 2 dim: -1 dim: 3", given({2, 1}, {1, 2})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(66, 165));
}

TEST(Expand, FewerSizesAreThoseOfTheLastAxes) {
  LayerRun run(expand("dim: 2", given({2, 1}, {1, 2})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 1, 2, 2));
}

TEST(Expand, GradientsAndEngines) {
  const std::pair<const char*, Shape> cases[] = {{"dim: 4 dim: -1 dim: 5 dim: -1", {2, 1, 3}},
                                                 {"dim: 7", {}},
                                                 {"dim: 7 dim: -1", {3}},
                                                 {"dim: -1 dim: 6", {5, 1}},
                                                 {"dim: 2 dim: 3", {2, 3}},
                                                 {"dim: 3 dim: -1 dim: 4 dim: -1", {1, 2, 1, 5}},
                                                 {"dim: 0 dim: 3", {1, 3}}};
  for (const auto& [dims, shape] : cases) {
    check_gradients(expand(dims, uniform(shape)));
    check_engines(expand(dims, uniform(shape)));
  }
  check_engines(expand("dim: 300 dim: -1", uniform({300})), {1e-4, 1e-4});
  check_engines(expand("dim: -1 dim: 700", uniform({3, 1})), {1e-4, 1e-4});
}

LayerCase expand_like(const std::string& dims, const Input& x, const Input& like) {
  LayerCase result = expand(dims, x);
  result.bottoms.push_back(like);
  return result;
}

TEST(Expand, FollowsTheShapeOfBottom1) {
  LayerRun run(expand_like("dim: -2 dim: -1", given({2}, {1, 2}), uniform({3, 5, 7})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 1, 2, 1, 2));
  run.set_top_diff(0, {1, 2, 10, 20, 100, 200});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(111, 222));
  EXPECT_EQ(run.kernel().in_place(), InPlace::never);
  // As many values as the bottom: the bottom's own memory is kept all the same.
  EXPECT_EQ(
      LayerRun(expand_like("dim: -2 dim: -1", uniform({1, 2}), uniform({1}))).kernel().in_place(),
      InPlace::never);
  check_engines(expand_like("dim: -2 dim: -1 dim: -2", uniform({1, 4, 1}), uniform({3, 9, 5})));
}

TEST(Expand, AnAliasWithoutCopies) {
  EXPECT_EQ(LayerRun(expand("dim: 1 dim: -1", uniform({3}))).kernel().in_place(), InPlace::alias);
  EXPECT_EQ(LayerRun(expand("dim: 2 dim: -1", uniform({3}))).kernel().in_place(), InPlace::never);
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(Expand, Errors) {
  refuses(expand("dim: -3", uniform({1})), {"dim -3"});
  refuses(expand("dim: 4 dim: 3", uniform({2, 1})), {"axis 0", "2x1", "2", "4"});
  refuses(expand("dim: -1 dim: -1", uniform({3})), {"dim 0", "-1", "'bottom0' (3)"});
  refuses(expand("dim: -2", uniform({1})), {"dim: -2", "bottom 1", "not given"});
  refuses(expand_like("dim: -1", uniform({1}), uniform({3})), {"'bottom1' is of no use", "-2"});
  refuses(expand_like("dim: 1 dim: -2", uniform({1}), uniform({3})),
          {"dim 1", "'bottom1' (3)", "no axis 1"});
  refuses(expand_like("dim: -2", uniform({2}), uniform({3})), {"axis 0", "2", "3"});
}

}  // namespace
}  // namespace crema::test
