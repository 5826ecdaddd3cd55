#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase gather(const std::string& settings, const Input& x, const Input& indices) {
  return {.layer = text("layer { type: 'Gather' gather_param { ", settings, " } }"),
          .bottoms = {x, indices}};
}
LayerCase gather(const std::string& settings, const Input& x) {
  return {.layer = text("layer { type: 'Gather' gather_param { ", settings, " } }"),
          .bottoms = {x}};
}

TEST(Gather, SlicesAtIndices) {
  LayerRun run(gather("axis: 1", given({2, 3}, {1, 2, 3, 4, 5, 6}), given({2, 2}, {2, 0, -1, -3})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(3, 1, 3, 1, 6, 4, 6, 4));
  run.set_top_diff(0, {1, 2, 10, 20, 3, 4, 30, 40});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(22, 0, 11, 44, 0, 33));
}

TEST(Gather, IndicesOfTheSettings) {
  LayerRun run(gather("index: -1 index: 0 index: -1", given({2, 2}, {1, 2, 3, 4})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(3, 4, 1, 2, 3, 4));
  LayerRun one(gather("axis: -1 index: 1 squeeze: true", given({2, 2}, {1, 2, 3, 4})));
  one.forward();
  EXPECT_EQ(one.top_blob(0).shape(), (Shape{2}));
  EXPECT_THAT(one.top(0), ElementsAre(2, 4));
  one.set_top_diff(0, {5, 6});
  one.backward();
  EXPECT_THAT(one.bottom_diff(0), ElementsAre(0, 5, 0, 6));
}

// In f32, -1 + n became n - 2.
TEST(Gather, NegativeIndicesOfALongAxis) {
  constexpr int64_t kCount = (int64_t{1} << 24) + 2;
  std::vector<double> values(kCount);
  values[kCount - 1] = 1;
  values[kCount - 2] = 2;
  LayerRun run(gather("", given({kCount}, values), given({3}, {-1, -2, -3})),
               {.dtype = DType::f32});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 0));
}

TEST(Gather, AScalarIndexTakesTheAxisAway) {
  LayerRun run(gather("axis: 1", given({2, 3}, {1, 2, 3, 4, 5, 6}), given({}, {1})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2}));
  EXPECT_THAT(run.top(0), ElementsAre(2, 5));
}

TEST(Gather, GradientsAndEngines) {
  for (const char* axis : {"axis: 0", "axis: 1", "axis: -1"}) {
    for (const Shape& indices : {Shape{}, Shape{4}, Shape{2, 3}}) {
      check_gradients(gather(axis, uniform({3, 4, 5}), labels(indices, 3)));
      check_engines(gather(axis, uniform({3, 4, 5}), labels(indices, 3)));
    }
    check_engines(gather(text(axis, " index: 2 index: -1 index: 2"), uniform({3, 4, 5})));
  }
  check_gradients(gather("axis: 1 index: -2", uniform({2, 3, 2})));
  check_engines(gather("axis: 0", uniform({3, 700}), labels({500}, 3)), {1e-4, 1e-4});
  check_engines(gather("axis: 1", uniform({300, 7, 1}), labels({90}, 7)), {1e-4, 1e-4});
}

TEST(Gather, EmptyBatchesAndNewShapes) {
  LayerRun run(gather("axis: 1", uniform({2, 3}), labels({2}, 3)));
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 5}, Shape{1, 3, 2}}) {
    run.reshape({uniform(shape), labels({2}, 3)});
    run.forward();
    run.backward();
  }
  run.reshape({uniform({2, 3}), uniform({0})});
  run.forward();
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
}

TEST(Gather, IndicesAreCheckedInEveryPass) {
  LayerRun run(gather("axis: 1", uniform({2, 3}), given({3}, {0, 1, 2})));
  run.forward();
  for (const double wrong : {3.0, -4.0, 1.5, std::nan(""), double(INFINITY)}) {
    run.bottom_values(1)[1] = wrong;
    expect_error([&] { run.forward(); },
                 {text("index ", wrong), "position 1 of 'bottom1' (3)", "'bottom0' (2x3)"});
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(Gather, Errors) {
  refuses(gather("axis: 2 index: 0", uniform({2, 3})), {"2", "2x3"});
  refuses(gather("index: 2", uniform({2, 3})), {"index 2", "'bottom0' (2x3)", "-2 to 1"});
  refuses(gather("index: -3", uniform({2, 3})), {"index -3"});
  refuses(gather("index: 0", uniform({2, 3}), uniform({1})), {"twice", "'bottom1'"});
  refuses(gather("", uniform({2, 3})), {"no indices"});
  refuses(gather("index: 0 index: 1 squeeze: true", uniform({2, 3})), {"squeeze", "2"});
  refuses(gather("squeeze: true", uniform({2, 3}), uniform({1})), {"squeeze", "0"});
  refuses(gather("index: 0", uniform({})), {"scalar"});
}

}  // namespace
}  // namespace crema::test
