// Matching of boxes with true boxes, against a plain search of all pairs.
#include "layer_support/matching.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/simd.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

template <class T>
struct Result {
  std::vector<int32_t> matches;
  std::vector<T> overlaps;
};

template <class T>
Result<T> match(const Matching& settings, const std::vector<BoundingBox<T>>& boxes,
                const std::vector<BoundingBox<T>>& truths, BoxMatcher<T>&& matcher = {}) {
  BoxColumns<T> columns, around;
  for (const auto& box : boxes) columns.add(box);
  find_box_runs(columns, around);
  Result<T> result{std::vector<int32_t>(boxes.size(), 99), std::vector<T>(boxes.size(), T(99))};
  matcher.match(settings, columns, around, truths, result.matches.data(), result.overlaps.data());
  return result;
}

/// What matching.hpp says, pair by pair.
template <class T>
Result<T> searched(const Matching& settings, const std::vector<BoundingBox<T>>& boxes,
                   const std::vector<BoundingBox<T>>& truths) {
  Result<T> result{std::vector<int32_t>(boxes.size(), kUnmatched), std::vector<T>(boxes.size())};
  const auto usual = [&](size_t i, size_t t) {
    const T value = overlap(boxes[i], truths[t]);
    return value > T(1e-6) ? value : T{0};
  };
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (settings.leaves_out_crossing && crosses_border(boxes[i])) result.matches[i] = kOutside;
    for (size_t t = 0; t < truths.size() && result.matches[i] != kOutside; ++t)
      result.overlaps[i] = std::max(result.overlaps[i], usual(i, t));
  }
  std::vector<bool> has_box(truths.size(), false);
  for (size_t round = 0; round < truths.size(); ++round) {
    T best = 0;
    size_t box = 0, truth = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t t = 0; t < truths.size() && result.matches[i] == kUnmatched; ++t) {
        if (has_box[t] || !(usual(i, t) > best)) continue;
        best = usual(i, t);
        box = i;
        truth = t;
      }
    }
    if (best == T{0}) break;
    result.matches[box] = static_cast<int32_t>(truth);
    result.overlaps[box] = best;
    has_box[truth] = true;
  }
  for (size_t i = 0; i < boxes.size() && !settings.bipartite; ++i) {
    if (result.matches[i] != kUnmatched) continue;
    T best = 0;
    for (size_t t = 0; t < truths.size(); ++t) {
      const T value = usual(i, t);
      if (value < static_cast<T>(settings.threshold) || !(value > best)) continue;
      best = value;
      result.matches[i] = static_cast<int32_t>(t);
    }
  }
  return result;
}

template <class T>
std::vector<BoundingBox<T>> draw(std::mt19937& random, int count, bool coarse) {
  std::uniform_real_distribution<double> place(-0.1, 0.9), side(0.05, 0.4);
  std::vector<BoundingBox<T>> boxes;
  for (int i = 0; i < count; ++i) {
    // Coarse places give many equal overlaps.
    const auto rounded = [&](double value) {
      return static_cast<T>(coarse ? std::round(value * 8) / 8 : value);
    };
    const T x = rounded(place(random)), y = rounded(place(random));
    boxes.push_back({x, y, x + rounded(side(random)), y + rounded(side(random))});
  }
  return boxes;
}

template <class T>
void compare_with_search() {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const auto boxes = draw<T>(random, 1 + round * 7, round % 2 == 0);
    const auto truths = draw<T>(random, round % 9, round % 4 == 0);
    for (const double threshold : {0.0, 0.35, 0.5}) {
      for (const int which : {0, 1, 2, 3}) {
        const Matching settings{which % 2 == 1, threshold, which > 1};
        const Result<T> actual = match(settings, boxes, truths);
        const Result<T> expected = searched(settings, boxes, truths);
        ASSERT_EQ(actual.matches, expected.matches) << round << ' ' << threshold << ' ' << which;
        for (size_t i = 0; i < boxes.size(); ++i)
          ASSERT_NEAR(actual.overlaps[i], expected.overlaps[i], 1e-6) << i;
      }
    }
  }
}

TEST(BoxMatcher, GivesWhatASearchOfAllPairsGives) {
  // Exact areas for coarse places: equal overlaps stay equal.
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    compare_with_search<double>();
    compare_with_search<float>();
  }
}

TEST(BoxMatcher, AmongEqualOverlapsTheLowerComesFirst) {
  const BoundingBox<float> box{0.25F, 0.25F, 0.5F, 0.5F}, other{0.5F, 0.5F, 0.75F, 0.75F};
  const Matching bipartite{.bipartite = true};
  EXPECT_THAT(match<float>(bipartite, {other, box, box}, {box}).matches, ElementsAre(-1, 0, -1));
  EXPECT_THAT(match<float>(bipartite, {box, box}, {box, box}).matches, ElementsAre(0, 1));
  // The second true box lost its best box to the first, and takes what is left.
  const BoundingBox<float> half{0.25F, 0.25F, 0.5F, 0.375F};
  EXPECT_THAT(match<float>(bipartite, {box, half}, {box, box}).matches, ElementsAre(0, 1));
  const Matching usual{.threshold = 0.4};
  EXPECT_THAT(match<float>(usual, {box, box, half}, {box, box}).matches, ElementsAre(0, 1, 0));
}

TEST(BoxMatcher, DisjointAndEmptyBoxesStayUnmatched) {
  const BoundingBox<float> box{0, 0, 0.25F, 0.25F}, beside{0.25F, 0, 0.5F, 0.25F}, point{};
  const Matching any{.threshold = 0};
  EXPECT_THAT(match<float>(any, {beside, point}, {box}).matches, ElementsAre(-1, -1));
  EXPECT_THAT(match<float>(any, {point, box}, {point}).matches, ElementsAre(-1, -1));
  EXPECT_THAT(match<float>(any, {box}, {}).matches, ElementsAre(-1));
}

TEST(BoxMatcher, LeavesNothingBehind) {
  const BoundingBox<float> box{0, 0, 0.5F, 0.5F}, other{0.5F, 0.5F, 1, 1};
  BoxMatcher<float> matcher;
  match<float>({}, {box, other, box}, {box, other}, std::move(matcher));
  const Result<float> result = match<float>({}, {other, box}, {box}, std::move(matcher));
  EXPECT_THAT(result.matches, ElementsAre(-1, 0));
  EXPECT_THAT(result.overlaps, ElementsAre(0, 1));
}

}  // namespace
}  // namespace crema::test
