#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

TEST(Silence, HasNoTopsAndNoGradient) {
  const LayerCase c{.layer = R"(layer { type: "Silence" })",
                    .bottoms = {uniform({2}), uniform({2, 11, 3, 2})},
                    .tops = 0};
  LayerRun first(c);
  for (int option = 0; option < int(first.options().size()); ++option) {
    LayerRun run(c, {.option = option});
    run.forward();
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
    EXPECT_THAT(run.bottom_diff(1), testing::Each(0));
  }
  EXPECT_EQ(first.options().size(), 4U);
}

}  // namespace
}  // namespace crema::test
