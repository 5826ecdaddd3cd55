#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const char* const kSplit = R"(layer { type: "Split" })";

TEST(Split, TopsAreTheBottomAndDiffsAddUp) {
  LayerRun run({.layer = kSplit, .bottoms = {given({3}, {1, 2, 3})}, .tops = 3});
  run.forward();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(run.top(i), testing::ElementsAre(1, 2, 3));
  run.set_top_diff(0, {1, 2, 3});
  run.set_top_diff(1, {10, 20, 30});
  run.set_top_diff(2, {100, 200, 300});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::ElementsAre(111, 222, 333));
}

TEST(Split, GradientsAndFormats) {
  for (int tops : {1, 2, 3}) {
    check_gradients({.layer = kSplit, .bottoms = {uniform({2, 3, 4})}, .tops = tops});
    const auto ran =
        check_engines({.layer = kSplit, .bottoms = {uniform({2, 19, 23, 20})}, .tops = tops});
    EXPECT_THAT(ran, testing::IsSupersetOf({"reference contiguous", "reference channels_last",
                                            "reference blocked8", "reference blocked16"}));
  }
}

}  // namespace
}  // namespace crema::test
