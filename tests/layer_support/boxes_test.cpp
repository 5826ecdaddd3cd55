// layer_support/boxes.hpp and layer_support/suppression.hpp: what the detection layers do with
// boxes.
#include "layer_support/boxes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/simd.hpp"
#include "layer_support/suppression.hpp"
#include "proto/detection.pb.h"
#include "support/expect_error.hpp"

namespace crema::test {
namespace {

using Box64 = BoundingBox<double>;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Boxes, Area) {
  EXPECT_DOUBLE_EQ(area(Box64{0.25, 0.5, 0.75, 0.6}), 0.5 * (0.6 - 0.5));
  EXPECT_EQ(area(Box64{1, 2, 4, 3}, BoxUnits::pixels), 4 * 2);
  EXPECT_EQ(area(Box64{3, 2, 3, 2}, BoxUnits::pixels), 1);
  // Of boxes whose edges are the wrong way round, on one axis or on both.
  EXPECT_EQ(area(Box64{0.5, 0, 0.4, 1}), 0);
  EXPECT_EQ(area(Box64{0.5, 0.5, 0.4, 0.4}), 0);
  EXPECT_EQ(area(Box64{5, 5, 3, 3}, BoxUnits::pixels), 0);
}

TEST(Boxes, Overlap) {
  const Box64 a{0, 0, 0.5, 0.5}, b{0.25, 0.25, 0.75, 0.75};
  EXPECT_DOUBLE_EQ(overlap(a, b), 0.0625 / (0.25 + 0.25 - 0.0625));
  EXPECT_DOUBLE_EQ(overlap(a, a), 1);
  EXPECT_EQ(overlap(a, Box64{0.5, 0, 1, 1}), 0);
  EXPECT_EQ(overlap(Box64{0.5, 0.5, 0.5, 0.5}, Box64{0.5, 0.5, 0.5, 0.5}), 0);
  EXPECT_DOUBLE_EQ(coverage(a, b), 0.25);
  EXPECT_DOUBLE_EQ(coverage(b, Box64{0, 0, 1, 1}), 1);
  EXPECT_EQ(coverage(Box64{0.5, 0.5, 0.5, 1}, Box64{0, 0, 1, 1}), 0);
}

// In the SSD fork, disjoint boxes in pixels share the pixel at the origin.
TEST(Boxes, DisjointBoxesInPixelsDoNotOverlap) {
  const Box64 a{10, 10, 19, 19};
  for (const Box64& b : {Box64{20, 10, 29, 19}, Box64{30, 30, 39, 39}, Box64{10, 0, 19, 9}}) {
    EXPECT_EQ(overlap(a, b, BoxUnits::pixels), 0);
    EXPECT_EQ(overlap(b, a, BoxUnits::pixels), 0);
    EXPECT_EQ(coverage(a, b, BoxUnits::pixels), 0);
  }
  // One column of ten pixels.
  EXPECT_DOUBLE_EQ(overlap(a, Box64{19, 10, 28, 19}, BoxUnits::pixels), 10.0 / 190);
}

TEST(Boxes, Clipping) {
  EXPECT_EQ(clipped(Box64{-0.1, 0.2, 1.1, 2}), (Box64{0, 0.2, 1, 1}));
  EXPECT_EQ(clipped(Box64{-1, 5, 30, 50}, 20.0, 40.0), (Box64{0, 5, 20, 40}));
  EXPECT_TRUE(crosses_border(Box64{0, 0, 1, 1.01}));
  EXPECT_FALSE(crosses_border(Box64{0, 0, 1, 1}));
}

constexpr Box64 kPrior{0.1, 0.2, 0.5, 0.4};  // centre 0.3, 0.3; 0.4 x 0.2
constexpr Box64 kBox{0.2, 0.3, 0.4, 0.7};    // centre 0.3, 0.5; 0.2 x 0.4
constexpr double kVariance[] = {0.1, 0.1, 0.2, 0.25};

void expect_box(const Box64& actual, const Box64& expected) {
  EXPECT_NEAR(actual.xmin, expected.xmin, 1e-12);
  EXPECT_NEAR(actual.ymin, expected.ymin, 1e-12);
  EXPECT_NEAR(actual.xmax, expected.xmax, 1e-12);
  EXPECT_NEAR(actual.ymax, expected.ymax, 1e-12);
}

TEST(Boxes, CodesAgainstPriors) {
  const auto encoded = [](BoxCode code, bool in_target) {
    return BoxCoder{code, in_target}.encode(kPrior, kVariance, kBox);
  };
  expect_box(encoded(BoxCode::corner, true), {0.1, 0.1, -0.1, 0.3});
  expect_box(encoded(BoxCode::corner, false), {1, 1, -0.5, 1.2});
  expect_box(encoded(BoxCode::corner_size, true), {0.25, 0.5, -0.25, 1.5});
  expect_box(encoded(BoxCode::corner_size, false), {2.5, 5, -1.25, 6});
  expect_box(encoded(BoxCode::center_size, true), {0, 1, std::log(0.5), std::log(2)});
  expect_box(encoded(BoxCode::center_size, false),
             {0, 10, std::log(0.5) / 0.2, std::log(2) / 0.25});
}

TEST(Boxes, DecodingUndoesEncoding) {
  for (const auto code : {BoxCode::corner, BoxCode::center_size, BoxCode::corner_size}) {
    for (const bool in_target : {false, true}) {
      const BoxCoder coder{code, in_target};
      expect_box(coder.decode(kPrior, kVariance, coder.encode(kPrior, kVariance, kBox)), kBox);
    }
  }
}

TEST(Boxes, PriorsAreChecked) {
  const BoxCoder corner, centre{BoxCode::center_size}, target{BoxCode::center_size, true};
  const auto check = [](const BoxCoder& coder, std::vector<double> boxes,
                        std::vector<double> variances) {
    check_priors(coder, "priors", boxes.data(), variances.data(),
                 static_cast<int64_t>(boxes.size() / 4));
  };
  check(centre, {0, 0, 1, 1}, {0.1, 0.1, 0.2, 0.2});
  check(target, {0, 0, 1, 1}, {0, 0, 0, 0});
  check(corner, {0.5, 0, 0.5, 1}, {0.1, 0.1, 0.2, 0.2});
  expect_error(
      [&] {
        check(centre, {0, 0, 1, 1, 0.5, 0, 0.5, 1}, std::vector<double>(8, 0.1));
      },
      {"prior box 1 of 'priors'", "0.5", "sides"});
  expect_error([&] { check(centre, {0, 0, 1, 1}, {0.1, 0.1, 0, 0.2}); }, {"variance 0"});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error([&] { check(corner, {0, nan, 1, 1}, {0.1, 0.1, 0.2, 0.2}); }, {"coordinate nan"});
}

TEST(Boxes, ShapesOfPriors) {
  Blob blob;
  blob.name = "priors";
  const auto count = [&](const Shape& shape, int64_t images = 0) {
    blob.reshape(shape);
    return prior_count(blob, images);
  };
  EXPECT_EQ(count({1, 2, 12}), 3);
  EXPECT_EQ(count({1, 2, 12, 1}), 3);
  EXPECT_EQ(count({5, 2, 12}, 5), 3);
  expect_error([&] { count({5, 2, 12}); }, {"priors", "5x2x12", "1 x 2 x 4 P"});
  expect_error([&] { count({1, 1, 12}); }, {"1x1x12"});
  expect_error([&] { count({1, 2, 10}); }, {"1x2x10"});
}

template <class T>
std::vector<int32_t> kept(const Suppression& settings, const std::vector<T>& scores,
                          const std::vector<BoundingBox<T>>& boxes,
                          T least = -std::numeric_limits<T>::infinity()) {
  std::vector<Candidate<T>> candidates;
  find_candidates(scores.data(), static_cast<int64_t>(scores.size()), least, candidates);
  sort_candidates(candidates, settings.top_k);
  BoxColumns<T> scratch;
  std::vector<int32_t> result;
  suppress(
      settings, static_cast<int64_t>(candidates.size()),
      [&](int64_t k) { return boxes[candidates[static_cast<size_t>(k)].index]; }, scratch, result);
  for (int32_t& k : result) k = candidates[static_cast<size_t>(k)].index;
  return result;
}

// Box 1 overlaps box 0 by 0.6, box 2 by 1 / 3.
const std::vector<Box64> kRow = {
    {0, 0, 0.4, 1}, {0.1, 0, 0.5, 1}, {0.2, 0, 0.6, 1}, {0.7, 0, 1, 1}};

TEST(Suppression, DropsWhatOverlapsABetterBox) {
  const std::vector<double> falling = {0.9, 0.8, 0.7, 0.6};
  EXPECT_THAT(kept({.threshold = 0.5}, falling, kRow), ElementsAre(0, 2, 3));
  EXPECT_THAT(kept({.threshold = 0.3}, falling, kRow), ElementsAre(0, 3));
  EXPECT_THAT(kept({.threshold = 0.9}, falling, kRow), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({.threshold = 0.5}, {0.6, 0.9, 0.7, 0.8}, kRow), ElementsAre(1, 3));
  // What overlaps by just the threshold stays.
  EXPECT_THAT(kept<double>({.threshold = 0}, {0.9, 0.8}, {kRow[0], kRow[3]}), ElementsAre(0, 1));
  EXPECT_THAT(kept({.threshold = 1}, falling, std::vector<Box64>(4, kRow[0])),
              ElementsAre(0, 1, 2, 3));
}

TEST(Suppression, ConsidersTheBestOnly) {
  const std::vector<double> scores = {0.6, 0.9, 0.7, 0.8};
  EXPECT_THAT(kept({.threshold = 1, .top_k = 2}, scores, kRow), ElementsAre(1, 3));
  EXPECT_THAT(kept({.threshold = 1, .top_k = 9}, scores, kRow), ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(kept({.threshold = 1}, scores, kRow, 0.7), ElementsAre(1, 3));
  EXPECT_THAT(kept({.threshold = 1}, scores, kRow, 0.95), IsEmpty());
}

TEST(Suppression, AmongEqualScoresTheLowerIndexIsFirst) {
  const std::vector<double> scores = {0.5, 0.7, 0.7, 0.5};
  EXPECT_THAT(kept({.threshold = 1}, scores, kRow), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(kept({.threshold = 1, .top_k = 3}, scores, kRow), ElementsAre(1, 2, 0));
  EXPECT_THAT(kept({.threshold = 0.5}, {1.0, 1.0, 1.0, 1.0}, kRow), ElementsAre(0, 2, 3));
}

TEST(Suppression, EtaLowersTheThresholdWhileItIsAboveAHalf) {
  const std::vector<double> scores = {0.9, 0.8, 0.7, 0.95};
  EXPECT_THAT(kept({.threshold = 0.7}, scores, kRow), ElementsAre(3, 0, 1, 2));
  // 0.448 after two boxes: box 1 is dropped, and with it what drops box 2.
  EXPECT_THAT(kept({.threshold = 0.7, .eta = 0.8}, scores, kRow), ElementsAre(3, 0, 2));
  // 0.315 after the first one.
  EXPECT_THAT(kept({.threshold = 0.7, .eta = 0.45}, scores, kRow), ElementsAre(3, 0));
  // 0.448 after the second and, being below a half, after the third: the last overlaps by 0.404.
  const std::vector<Box64> boxes = {
      {0.7, 0, 0.8, 1}, {0, 0, 0.4, 1}, {0.9, 0, 1, 1}, {0.17, 0, 0.57, 1}};
  EXPECT_THAT(kept<double>({.threshold = 0.7, .eta = 0.8}, {0.9, 0.8, 0.7, 0.6}, boxes),
              ElementsAre(0, 1, 2, 3));
}

TEST(Suppression, NaNIsNoScore) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(kept({.threshold = 1}, {nan, 0.5, nan, 0.25}, kRow), ElementsAre(1, 3));
}

/// The definition, one pair at a time.
template <class T>
std::vector<int32_t> kept_plainly(double threshold, const std::vector<T>& scores,
                                  const std::vector<BoundingBox<T>>& boxes, T least) {
  std::vector<int32_t> order, result;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > least) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  for (const int32_t i : order) {
    const bool drop = std::any_of(result.begin(), result.end(), [&](int32_t k) {
      return overlap(boxes[i], boxes[k]) > static_cast<T>(threshold);
    });
    if (!drop) result.push_back(i);
  }
  return result;
}

template <class T>
void check_every_width() {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> share(0, 1);
  for (const int count : {1, 3, 64, 257, 5000}) {
    std::vector<T> scores;
    std::vector<BoundingBox<T>> boxes;
    for (int i = 0; i < count; ++i) {
      scores.push_back(std::round(share(random) * 100) / 100);  // many are equal
      const T x = share(random), y = share(random);
      boxes.push_back({x, y, x + share(random) / 4, y + share(random) / 4});
    }
    const auto expected = kept_plainly<T>(0.3, scores, boxes, T(0.25));
    for (const auto level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      const SimdLimit limit(level);
      EXPECT_EQ(kept<T>({.threshold = 0.3}, scores, boxes, T(0.25)), expected)
          << count << " boxes at " << to_string(level);
    }
  }
}

TEST(Suppression, IsTheDefinitionAtEveryVectorWidth) {
  check_every_width<float>();
  check_every_width<double>();
}

template <class T>
void check_best_of_many() {
  std::mt19937 random(11);
  std::uniform_real_distribution<T> share(-1, 1);
  for (const int count : {1100, 5000, 20000}) {
    std::vector<Candidate<T>> all;
    for (int i = 0; i < count; ++i) {
      // Tiny ones, negative ones, zeros of both signs; a third are equal to others.
      const T value = std::pow(share(random), T(9));
      all.push_back({i % 3 == 0 ? std::round(value * 8) / 8 : value, i});
    }
    std::vector<Candidate<T>> expected = all;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    for (const int64_t top_k : {0, 1, 40, 400, count / 2 - 1, count - 1, count, count + 1}) {
      std::vector<Candidate<T>> best = all;
      sort_candidates(best, top_k);
      ASSERT_EQ(best.size(), static_cast<size_t>(std::min<int64_t>(top_k, count)));
      for (size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i].index, expected[i].index) << i;
    }
  }
}

TEST(Suppression, TheBestOfManyCandidates) {
  check_best_of_many<float>();
  check_best_of_many<double>();
}

TEST(Suppression, Settings) {
  NonMaximumSuppressionParameter settings;
  // In the SSD fork, settings without top_k select nothing in MultiBoxLoss.
  EXPECT_EQ(suppression_of(settings).top_k, -1);
  EXPECT_FLOAT_EQ(static_cast<float>(suppression_of(settings).threshold), 0.3F);
  settings.set_top_k(5);
  EXPECT_EQ(suppression_of(settings).top_k, 5);
  settings.set_top_k(0);
  expect_error([&] { suppression_of(settings); }, {"top_k 0", "-1 for all"});
  settings.clear_top_k();
  settings.set_eta(0);
  expect_error([&] { suppression_of(settings); }, {"eta 0", "(0, 1]"});
  settings.clear_eta();
  settings.set_nms_threshold(-0.1F);
  expect_error([&] { suppression_of(settings); }, {"nms_threshold -0.1"});
  settings.set_nms_threshold(45);
  expect_error([&] { suppression_of(settings); }, {"nms_threshold 45", "[0, 1]"});
  settings.set_nms_threshold(1);
  EXPECT_EQ(suppression_of(settings).threshold, 1);
}

}  // namespace
}  // namespace crema::test
