#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string confusion(const std::string& settings = "") {
  return text("layer { type: 'ConfusionMatrix' bottom: 'score' bottom: 'label' ",
              "confusion_matrix_param { ", settings, " } }");
}

/// Taken for 0, 2, 1, 2, and 0 of equal scores.
const Input kScores = given({5, 3}, {9, 1, 2, 0, 1, 2, 3, 5, 4, -3, -2, -1, 4, 4, 4});

std::vector<double> matrix(const LayerCase& c) {
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 3}));
  return run.top(0);
}

TEST(ConfusionMatrix, CountsLabelsByRow) {
  const std::vector<Input> bottoms = {kScores, given({5}, {0, 0, 1, 2, 2})};
  EXPECT_EQ(matrix({.layer = confusion(), .bottoms = bottoms}),
            (std::vector<double>{1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(matrix({.layer = confusion("normalize: true"), .bottoms = bottoms}),
            (std::vector<double>{0.5, 0, 0.5, 0, 1, 0, 0.5, 0, 0.5}));
}

TEST(ConfusionMatrix, IgnoresLabelsAndNaN) {
  Input scores = kScores;
  for (size_t i = 6; i < 9; ++i) scores.values[i] = std::nan("");
  scores.values[0] = std::nan("");  // class 2 is the greatest now
  const LayerCase c{.layer = confusion("ignore_label: 255"),
                    .bottoms = {scores, given({5}, {0, 255, 1, 2, 2})}};
  EXPECT_EQ(matrix(c), (std::vector<double>{0, 0, 1, 0, 0, 0, 1, 0, 1}));
}

TEST(ConfusionMatrix, MapsAndAxes) {
  // Pixels of one image: classes along axis 1, then along the last axis.
  EXPECT_EQ(matrix({.layer = confusion(),
                    .bottoms = {given({1, 3, 2}, {9, 0, 1, 1, 2, 2}), given({1, 2}, {1, 2})}}),
            (std::vector<double>{0, 0, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(matrix({.layer = confusion("axis: -1"),
                    .bottoms = {given({1, 2, 3}, {9, 1, 2, 0, 1, 2}), given({1, 2}, {1, 2})}}),
            (std::vector<double>{0, 0, 0, 1, 0, 0, 0, 0, 1}));
}

TEST(ConfusionMatrix, EveryEngine) {
  const LayerCase c{.layer = confusion(), .bottoms = {uniform({40, 7, 3}), labels({40, 3}, 7)}};
  check_engines(c);
  EXPECT_FALSE(LayerRun(c).layer().can_propagate(0));
}

TEST(ConfusionMatrix, RefusesLabelsOutOfRange) {
  expect_error(
      [] {
        matrix({.layer = confusion(), .bottoms = {kScores, given({5}, {0, 0, 3, 2, 2})}});
      },
      {"label 3", "position 2", "[0, 3)"});
}

}  // namespace
}  // namespace crema::test
