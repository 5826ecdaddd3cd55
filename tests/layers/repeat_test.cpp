// Repeat and ContinuationIndicator.
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

TEST(Repeat, EachSliceIsRepeated) {
  LayerRun run({.layer = "layer { type: 'Repeat' repeat_param { axis: 1 times: 2 } }",
                .bottoms = {given({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 4, 2}));
  EXPECT_EQ(run.top(0), (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8, 7, 8}));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{4, 6, 12, 14, 20, 22, 28, 30}));
}

TEST(Repeat, GradientsAndEngines) {
  for (const char* settings :
       {"axis: 0 times: 3", "axis: -1 times: 4", "times: 1", "axis: 1 times: 2"}) {
    const std::string layer =
        std::string("layer { type: 'Repeat' repeat_param { ") + settings + " } }";
    SCOPED_TRACE(layer);
    check_gradients({.layer = layer, .bottoms = {uniform({2, 3, 4})}});
    check_engines({.layer = layer, .bottoms = {uniform({2, 13, 4, 5})}});
    check_engines({.layer = layer, .bottoms = {uniform({0, 3})}});
  }
}

TEST(Repeat, WrongSettings) {
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'Repeat' repeat_param { times: 0 } }",
                  .bottoms = {uniform({2, 3})}});
      },
      {"times is 0"});
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'Repeat' repeat_param { axis: 2 times: 2 } }",
                  .bottoms = {uniform({2, 3})}});
      },
      {"axis 2", "2x3"});
}

TEST(ContinuationIndicator, ZeroInTheFirstStepAlone) {
  const std::vector<double> expected = {0, 0, 1, 1, 1, 1};
  const std::string settings = "continuation_indicator_param { time_step: 3 batch_size: 2 }";
  LayerRun given_numbers({.layer = "layer { type: 'ContinuationIndicator' " + settings + " }"});
  given_numbers.forward();
  EXPECT_EQ(given_numbers.top(0), expected);
  EXPECT_EQ(given_numbers.top_blob(0).shape(), (Shape{3, 2}));
  LayerRun by_bottom(
      {.layer = "layer { type: 'ContinuationIndicator' }", .bottoms = {uniform({3, 2, 4})}});
  by_bottom.forward();
  EXPECT_EQ(by_bottom.top(0), expected);
}

TEST(ContinuationIndicator, WrongSettings) {
  expect_error([] { LayerRun({.layer = "layer { type: 'ContinuationIndicator' }"}); },
               {"time_step 0", "batch_size 0", "T x N"});
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'ContinuationIndicator' continuation_indicator_param { "
                           "time_step: 4 } }",
                  .bottoms = {uniform({3, 2, 4})}});
      },
      {"time_step 4", "3x2x4", "leave them out"});
}

}  // namespace
}  // namespace crema::test
