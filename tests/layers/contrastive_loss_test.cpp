#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "", const std::string& more = "") {
  return text("layer { type: 'ContrastiveLoss' bottom: 'a' bottom: 'b' bottom: 'similar' ",
              "contrastive_loss_param { ", settings, " } ", more, " }");
}

/// Distances 5, 0.5 and 5; the first pair is similar.
const std::vector<Input> kPairs = {given({3, 2}, {3, 4, 0.3, 0.4, 3, 4}),
                                   given({3, 2}, {0, 0, 0, 0, 0, 0}), given({3}, {1, 0, 0})};

TEST(ContrastiveLoss, Values) {
  LayerRun run({.layer = loss("margin: 2"), .bottoms = kPairs});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], (25 + 1.5 * 1.5) / 6, 1e-5);
  run.backward();
  const double slope = -1.5 / (0.5 + 1e-4);
  const std::vector<double> diff = {1, 4. / 3, slope * 0.1, slope * 0.4 / 3, 0, 0};
  expect_close(run.bottom_diff(0), diff, {1e-5, 0}, "diff 0");
  std::vector<double> negative;
  for (const double d : diff) negative.push_back(-d);
  expect_close(run.bottom_diff(1), negative, {1e-5, 0}, "diff 1");
}

TEST(ContrastiveLoss, LegacyVersion) {
  LayerRun run({.layer = loss("margin: 2 legacy_version: true"), .bottoms = kPairs});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], (25 + 1.75) / 6, 1e-5);
  run.backward();
  expect_close(run.bottom_diff(0), {1, 4. / 3, -0.1, -0.4 / 3, 0, 0}, {1e-5, 0}, "diff");
}

// The slope of the distance at 0 is held by what the published gradient adds.
TEST(ContrastiveLoss, EqualItemsHaveNoGradient) {
  LayerRun run({.layer = loss(),
                .bottoms = {given({1, 2}, {1, 2}), given({1, 2}, {1, 2}), given({1}, {0})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 0.5, 1e-6);
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
}

TEST(ContrastiveLoss, Gradients) {
  const std::vector<Input> pairs = {uniform({6, 5}), uniform({6, 5, 1, 1}), labels({6, 1}, 2)};
  for (const char* settings :
       {"margin: 100", "margin: 1.7", "margin: 0", "margin: 100 legacy_version: true",
        "margin: 3 legacy_version: true"}) {
    for (const char* weight : {"", "loss_weight: 0.3"}) {
      const LayerCase c{.layer = loss(settings, weight), .bottoms = pairs};
      check_gradients(c, {.tolerance = 3e-4});
      check_engines(c);
    }
  }
  check_engines({.layer = loss(), .bottoms = {uniform({1, 1}), uniform({1, 1}), labels({1}, 2)}});
  check_engines({.layer = loss("margin: 50"),
                 .bottoms = {uniform({7, 1001}), uniform({7, 1001}), labels({7}, 2)}});
}

TEST(ContrastiveLoss, OneGradientAlone) {
  LayerRun run({.layer = loss("margin: 2"), .bottoms = kPairs});
  EXPECT_FALSE(run.layer().can_propagate(2));
  for (const size_t k : {0, 1}) {
    const auto propagate = run.want_only(k);
    run.forward();
    run.backward(propagate);
    EXPECT_NEAR(run.bottom_diff(static_cast<int>(k))[0], k == 0 ? 1 : -1, 1e-5);
  }
}

TEST(ContrastiveLoss, NaNIsNotHidden) {
  for (const char* settings : {"", "legacy_version: true"}) {
    for (const int at : {0, 2, 4}) {
      LayerRun run({.layer = loss(settings), .bottoms = kPairs});
      run.bottom_values(1)[static_cast<size_t>(at)] = std::nan("");
      run.forward();
      EXPECT_TRUE(std::isnan(run.top(0)[0])) << settings << at;
    }
  }
}

TEST(ContrastiveLoss, TakesOtherShapes) {
  LayerRun run({.layer = loss(), .bottoms = kPairs});
  run.forward();
  run.reshape({given({1, 1}, {2}), given({1, 1}, {0}), given({1}, {1})});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 2, 1e-6);
}

TEST(ContrastiveLoss, Errors) {
  const auto refuse = [](std::vector<Input> bottoms,
                         std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun({.layer = loss(), .bottoms = bottoms}).forward(); }, parts);
  };
  refuse({uniform({4, 3}), uniform({4, 2}), labels({4}, 2)}, {"'a' (4x3)", "'b' (4x2)"});
  refuse({uniform({4, 3}), uniform({3, 4}), labels({4}, 2)}, {"'a' (4x3)", "'b' (3x4)"});
  refuse({uniform({4, 3}), uniform({4, 3}), labels({3}, 2)},
         {"'a' (4x3)", "4 items", "'similar' (3)", "3 labels", "pair"});
  refuse({uniform({4, 0}), uniform({4, 0}), labels({4}, 2)}, {"'a' (4x0)", "no values"});
  for (const double bad : {2.0, -1.0, 0.5, std::nan("")}) {
    refuse({uniform({2, 3}), uniform({2, 3}), given({2}, {1, bad})},
           {"position 1", "[0, 2)", "similar"});
  }
  for (const char* margin : {"-1", "nan", "inf"}) {
    expect_error(
        [&] { LayerRun run({.layer = loss(text("margin: ", margin)), .bottoms = kPairs}); },
        {"margin", "distance"});
  }
}

}  // namespace
}  // namespace crema::test
