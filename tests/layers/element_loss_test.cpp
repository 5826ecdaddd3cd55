// L1Loss and SmoothL1Loss. Values: the cases of tests/golden/torch and tests/golden/ssd.
#include <gtest/gtest.h>

#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

TEST(ElementLoss, Gradients) {
  check_gradients({.layer = "layer { type: 'L1Loss' }",
                   .bottoms = {uniform({3, 4}, 1, 2), uniform({3, 4}, -1, 0.5)}});
  for (const char* sigma : {"0.5", "1", "3"}) {
    const std::string layer =
        std::string("layer { type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: ") + sigma + " } }";
    SCOPED_TRACE(layer);
    // The second derivative jumps: differences across that point are less exact.
    const GradientCheck check{.step = 1e-6, .tolerance = 1e-5};
    check_gradients({.layer = layer, .bottoms = {uniform({3, 4, 2}), uniform({3, 4, 2})}}, check);
    check_gradients({.layer = layer,
                     .bottoms = {uniform({3, 4, 2}), uniform({3, 4, 2}), uniform({3, 4, 2}, 0, 2)}},
                    check);
    check_gradients({.layer = layer,
                     .bottoms = {uniform({3, 4, 2}), uniform({3, 4, 2}), uniform({3, 4, 2}, 0, 2),
                                 uniform({3, 4, 2}, 0, 2)}},
                    check);
  }
}

TEST(ElementLoss, EveryEngine) {
  for (const char* layer : {"layer { type: 'L1Loss' }", "layer { type: 'SmoothL1Loss' }"}) {
    check_engines({.layer = layer, .bottoms = {uniform({30, 701}, -3, 3), uniform({30, 701})}});
    check_engines({.layer = layer, .bottoms = {uniform({0, 4}), uniform({0, 4})}});
  }
}

TEST(ElementLoss, TheKinkOfSmoothL1) {
  // sigma 2: quadratic below 1/4, and both sides meet there.
  LayerRun run({.layer = "layer { type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: 2 } }",
                .bottoms = {given({1, 4}, {0.25, -0.25, 0.125, -3}), given({1, 4}, {0, 0, 0, 0})}});
  run.forward();
  EXPECT_FLOAT_EQ(static_cast<float>(run.top(0)[0]), 0.125F + 0.125F + 0.03125F + 2.875F);
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{1, -1, 0.5, -1}));
}

TEST(ElementLoss, NaNStays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* layer : {"layer { type: 'L1Loss' }", "layer { type: 'SmoothL1Loss' }"}) {
    LayerRun run({.layer = layer, .bottoms = {given({1, 2}, {nan, 1}), given({1, 2}, {0, 0})}});
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0])) << layer;
  }
}

TEST(ElementLoss, WrongShapesAndSettings) {
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'SmoothL1Loss' }",
                  .bottoms = {uniform({2, 3}), uniform({2, 3}), uniform({2, 4})}});
      },
      {"bottom2", "8 weights", "6 values"});
  expect_error(
      [] {
        LayerRun(
            {.layer = "layer { type: 'L1Loss' }", .bottoms = {uniform({2, 3}), uniform({3, 2})}});
      },
      {"2x3", "3x2"});
  for (const char* sigma : {"0", "-1", "nan", "inf"}) {
    expect_error(
        [&] {
          LayerRun(
              {.layer = std::string("layer { type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: ") +
                        sigma + " } }",
               .bottoms = {uniform({2, 3}), uniform({2, 3})}});
        },
        {"sigma", sigma});
  }
}

}  // namespace
}  // namespace crema::test
