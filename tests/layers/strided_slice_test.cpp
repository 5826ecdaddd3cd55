#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase slice(const std::string& settings, const Input& x) {
  return {.layer = text("layer { type: 'StridedSlice' strided_slice_param { ", settings, " } }"),
          .bottoms = {x}};
}
std::vector<double> sliced(const std::string& settings) {
  LayerRun run(slice("axis: 0 " + settings, given({5}, {0, 1, 2, 3, 4})));
  run.forward();
  return run.top(0);
}

TEST(StridedSlice, Ranges) {
  EXPECT_THAT(sliced("begin: 1 end: 4"), ElementsAre(1, 2, 3));
  EXPECT_THAT(sliced("begin: 0 end: 5 step: 2"), ElementsAre(0, 2, 4));
  EXPECT_THAT(sliced("begin: -2 end: 1000"), ElementsAre(3, 4));
  EXPECT_THAT(sliced("begin: 1 end: -1"), ElementsAre(1, 2, 3));
  EXPECT_THAT(sliced("begin: -1 end: -1000 step: -1"), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(sliced("begin: 1000 end: 0 step: -2"), ElementsAre(4, 2));
  EXPECT_THAT(
      sliced("begin: -9223372036854775808 end: 9223372036854775807 step: 9223372036854775807"),
      ElementsAre(0));
  EXPECT_THAT(sliced("begin: 4 end: -9223372036854775808 step: -9223372036854775808"),
              ElementsAre(4));
  EXPECT_THAT(sliced("begin: 3 end: 3"), ElementsAre());
  EXPECT_THAT(sliced("begin: 1 end: 3 step: -1"), ElementsAre());
}

TEST(StridedSlice, GradientsGoWhereSlicesCameFrom) {
  LayerRun run(slice("axis: 1 axis: -3 begin: 2 begin: 1 end: -10 end: 2 step: -2 step: 1",
                     given({2, 3, 1}, {1, 2, 3, 4, 5, 6})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 2, 1}));
  EXPECT_THAT(run.top(0), ElementsAre(6, 4));
  run.set_top_diff(0, {7, 8});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 8, 0, 7));
}

TEST(StridedSlice, GradientsAndEngines) {
  for (const char* settings : {"axis: 0 begin: 1 end: 3", "axis: -1 begin: 0 end: 9 step: 2",
                               "axis: 1 axis: 2 begin: 1 begin: -1 end: 4 end: -9 step: 2 step: -1",
                               "axis: 0 axis: 1 axis: 2 begin: 2 begin: 0 begin: 1 end: 0 end: 3 "
                               "end: 4 step: -1 step: 1 step: 2",
                               "axis: 1 begin: 0 end: 4", "axis: 0 begin: 2 end: 1"}) {
    check_gradients(slice(settings, uniform({3, 4, 5})));
    check_engines(slice(settings, uniform({3, 4, 5})));
  }
  check_engines(slice("axis: 1 begin: 700 end: 0 step: -3", uniform({90, 701})));
}

TEST(StridedSlice, AnAliasOfAllValues) {
  EXPECT_EQ(LayerRun(slice("axis: 0 begin: 0 end: 9", uniform({3, 2}))).kernel().in_place(),
            InPlace::alias);
  EXPECT_EQ(
      LayerRun(slice("axis: 0 begin: 9 end: -9 step: -1", uniform({3, 2}))).kernel().in_place(),
      InPlace::never);
}

TEST(StridedSlice, EmptyBatchesAndNewShapes) {
  LayerRun run(slice("axis: 1 begin: 1 end: 9 step: 2", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}, Shape{4, 6}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{shape[0], shape[1] / 2}));
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(StridedSlice, Errors) {
  refuses(slice("axis: 0 begin: 1", uniform({3})), {"1 values of axis", "0 of end"});
  refuses(slice("axis: 0 begin: 1 end: 2 step: 1 step: 1", uniform({3})), {"2 of step"});
  refuses(slice("axis: 0 begin: 1 end: 2 step: 0", uniform({3})), {"step 0"});
  refuses(slice("axis: 1 begin: 1 end: 2", uniform({3})), {"1", "3"});
  refuses(slice("axis: 0 axis: -1 begin: 1 begin: 1 end: 2 end: 2", uniform({3})),
          {"axis -1", "twice"});
}

}  // namespace
}  // namespace crema::test
