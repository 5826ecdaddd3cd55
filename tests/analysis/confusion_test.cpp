#include "analysis/confusion.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "crema/error.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

Tensor tensor(const Shape& shape, const std::vector<float>& values) {
  Tensor made(shape);
  std::copy(values.begin(), values.end(), made.overwrite<float>());
  return made;
}

const ScoredLabels kPair{.scores = "scores", .labels = "labels"};

TEST(Confusion, SharesOfClasses) {
  ConfusionMatrix confusion;
  // Labels 0 0 0 1, predictions 0 0 1 1; class 2 has neither.
  confusion.add(tensor({4, 3}, {9, 1, 1, 9, 1, 1, 1, 9, 1, 1, 9, 1}), tensor({4}, {0, 0, 0, 1}),
                kPair);
  EXPECT_DOUBLE_EQ(*confusion.precision(0), 1);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(*confusion.f1(0), 0.8);
  EXPECT_DOUBLE_EQ(*confusion.precision(1), 0.5);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(1), 1);
  EXPECT_DOUBLE_EQ(*confusion.f1(1), 2.0 / 3);
  EXPECT_FALSE(confusion.precision(2));
  EXPECT_FALSE(confusion.f1(2));
  EXPECT_DOUBLE_EQ(*confusion.mean_precision(), 0.75) << "of the classes that have one";
  EXPECT_DOUBLE_EQ(*confusion.mean_f1(), (0.8 + 2.0 / 3) / 2);
  EXPECT_FALSE(confusion.top_k()) << "of three classes";
}

// Ten classes whose scores rise with their numbers: the best five are 9, 8, 7, 6, 5.
TEST(Confusion, TheBestFiveOfTenClasses) {
  std::vector<float> scores, labels;
  for (int label = 0; label < 10; ++label) {
    for (int c = 0; c < 10; ++c) scores.push_back(static_cast<float>(c));
    labels.push_back(static_cast<float>(label));
  }
  ConfusionMatrix confusion;
  confusion.add(tensor({10, 10}, scores), tensor({10}, labels), kPair);
  EXPECT_DOUBLE_EQ(*confusion.top_k(), 0.5);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(), 0.1);
  // Equal scores of others go before, as in Accuracy; a score of NaN is in no row of the best.
  ConfusionMatrix equal;
  std::vector<float> same(20, 1);
  same[10] = NAN;
  equal.add(tensor({2, 10}, same), tensor({2}, {3, 0}), kPair);
  EXPECT_DOUBLE_EQ(*equal.top_k(), 0);
}

TEST(Confusion, PredictionsOfPositions) {
  const std::vector<Prediction> all =
      predictions(tensor({3, 2}, {0.25F, 0.75F, 2, 2, NAN, NAN}), tensor({3}, {1, 0, 0}), kPair);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].best, 1);
  EXPECT_EQ(all[0].score, 0.75);
  EXPECT_EQ(all[1].best, 1) << "not the label, of equal ones";
  EXPECT_EQ(all[2].best, -1);
  expect_error(
      [] {
        predictions(tensor({3, 2}, std::vector<float>(6)), tensor({2}, {0, 0}), kPair);
      },
      {"3 positions", "labels"});
}

}  // namespace
}  // namespace crema
