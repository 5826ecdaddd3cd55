#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

std::string accuracy(const std::string& settings = "") {
  return text("layer { type: 'Accuracy' bottom: 'score' bottom: 'label' accuracy_param { ",
              settings, " } }");
}

/// Scores whose order is 2, 1, 0 in every row.
LayerCase ordered(const std::vector<double>& label_values, const std::string& settings = "",
                  int tops = 1) {
  std::vector<double> scores;
  for (size_t i = 0; i < label_values.size(); ++i) scores.insert(scores.end(), {1, 2, 3});
  const auto n = int64_t(label_values.size());
  return {.layer = accuracy(settings),
          .bottoms = {given({n, 3}, scores), given({n}, label_values)},
          .tops = tops,
          .phase = Phase::test};
}

std::vector<double> top_of(const LayerCase& c, int top = 0) {
  LayerRun run(c, {.trains = false});
  run.forward();
  return run.top(top);
}

TEST(Accuracy, ShareOfRightLabels) {
  EXPECT_THAT(top_of(ordered({2, 2, 0, 1})), ElementsAre(0.5));
  EXPECT_THAT(top_of(ordered({2, 2, 0, 1}, "top_k: 2")), ElementsAre(0.75));
  EXPECT_THAT(top_of(ordered({2, 2, 0, 1}, "top_k: 3")), ElementsAre(1));
}

TEST(Accuracy, IgnoredLabelsDoNotCount) {
  EXPECT_THAT(top_of(ordered({2, 0, 1, 2}, "ignore_label: 1")),
              testing::Each(testing::DoubleNear(2. / 3, 1e-7)));
  EXPECT_THAT(top_of(ordered({9, 9}, "ignore_label: 9")), ElementsAre(0));
}

TEST(Accuracy, ByClass) {
  const LayerCase c = ordered({2, 2, 0, 0}, "", 2);
  EXPECT_THAT(top_of(c, 0), ElementsAre(0.5));
  EXPECT_THAT(top_of(c, 1), ElementsAre(0, 0, 1));
}

// Published: a score that equals the label's is a better one.
TEST(Accuracy, TiesAreMisses) {
  LayerCase c{.layer = accuracy(), .bottoms = {given({1, 3}, {1, 1, 0}), given({1}, {0})}};
  EXPECT_THAT(top_of(c), ElementsAre(0));
  c.layer = accuracy("top_k: 2");
  EXPECT_THAT(top_of(c), ElementsAre(1));
}

// A net that has diverged is not always right.
TEST(Accuracy, NaNIsNeverRight) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(
      top_of({.layer = accuracy(), .bottoms = {given({1, 2}, {nan, nan}), given({1}, {0})}}),
      ElementsAre(0));
}

TEST(Accuracy, AlongOtherAxes) {
  // (1, classes, 3): the columns' best classes are 1, 0, 0.
  const std::vector<double> scores = {0, 5, 5, 1, 4, 4};
  EXPECT_THAT(top_of({.layer = accuracy(),
                      .bottoms = {given({1, 2, 3}, scores), given({1, 3}, {1, 0, 1})}}),
              testing::Each(testing::DoubleNear(2. / 3, 1e-7)));
  EXPECT_THAT(top_of({.layer = accuracy("axis: -1"),
                      .bottoms = {given({1, 2, 3}, {0, 5, 4, 1, 4, 3}), given({1, 2}, {1, 1})}}),
              ElementsAre(1));
}

TEST(Accuracy, HasNoBackward) {
  LayerRun run(ordered({2}));
  EXPECT_FALSE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
  EXPECT_EQ(run.layer().default_loss_weight(0), 0);
}

TEST(Accuracy, Errors) {
  LayerRun run(ordered({2, 3}));
  expect_error([&] { run.forward(); }, {"label 3 at position 1 of the batch", "[0, 3)"});
  expect_error([] { LayerRun bad(ordered({2}, "top_k: 4")); }, {"top_k 4", "3 classes"});
  expect_error([] { LayerRun bad(ordered({2}, "top_k: 0")); }, {"top_k"});
  expect_error(
      [] {
        LayerRun bad({.layer = accuracy(), .bottoms = {uniform({4, 5}), labels({3}, 5)}});
      },
      {"'score' (4x5)", "'label' (3)"});
}

}  // namespace
}  // namespace crema::test
