// The choice of priors, against a sort of all, and the lists that it makes.
#include "layers/multibox_loss/mining.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/simd.hpp"
#include "crema/error.hpp"

namespace crema::test {
namespace {

/// What mining.hpp says.
template <class T>
std::vector<int32_t> sorted(const Mining& mining, std::vector<int32_t> matches,
                            const std::vector<T>& overlaps, const std::vector<T>& losses,
                            const std::vector<BoundingBox<T>>& boxes) {
  const bool hard = mining.kind == Mining::Kind::hard_examples;
  std::vector<size_t> eligible;
  int64_t positives = 0;
  for (size_t p = 0; p < matches.size(); ++p) {
    positives += matches[p] >= 0 ? 1 : 0;
    const bool negative = matches[p] == kUnmatched && overlaps[p] < T(mining.negative_overlap);
    if (hard ? matches[p] >= kUnmatched : negative) eligible.push_back(p);
  }
  std::stable_sort(eligible.begin(), eligible.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t p) {
      return std::isnan(losses[p]) ? std::numeric_limits<T>::infinity() : losses[p];
    };
    return key(a) > key(b);
  });
  const auto negatives =
      static_cast<int64_t>(mining.negatives_each * static_cast<float>(positives));
  const auto wanted = static_cast<size_t>(hard ? mining.samples : negatives);
  if (mining.suppression) {
    const Suppression& settings = *mining.suppression;
    const auto most = static_cast<size_t>(settings.top_k);
    if (settings.top_k >= 0 && eligible.size() > most) eligible.resize(most);
    std::vector<size_t> kept;
    for (const size_t p : eligible) {
      const bool overlaps_kept = std::any_of(kept.begin(), kept.end(), [&](size_t k) {
        return overlap(boxes[k], boxes[p]) > static_cast<T>(settings.threshold);
      });
      if (area(boxes[p]) >= T(1e-5) && !overlaps_kept) kept.push_back(p);
    }
    eligible = kept;
  }
  if (eligible.size() > wanted) eligible.resize(wanted);
  std::vector<bool> chosen(matches.size());
  for (const size_t p : eligible) chosen[p] = true;
  for (size_t p = 0; p < matches.size(); ++p) {
    if (chosen[p] && matches[p] == kUnmatched) matches[p] = kNegative;
    if (hard && !chosen[p] && matches[p] >= 0) matches[p] = kUnmatched;
  }
  return matches;
}

template <class T>
void compare_with_sort() {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Miner<T> miner;
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<size_t>(1 + below(700));
    std::vector<int32_t> matches(count);
    std::vector<T> overlaps(count), losses(count);
    std::vector<BoundingBox<T>> boxes(count);
    for (size_t p = 0; p < count; ++p) {
      matches[p] = below(20) == 0   ? below(5)
                   : below(10) == 0 ? kOutside
                   : below(30) == 0 ? kDifficult
                                    : kUnmatched;
      // Coarse places: many boxes are the same, some have no area.
      const T x = static_cast<T>(below(6)) / 8, y = static_cast<T>(below(6)) / 8;
      boxes[p] = {x, y, x + static_cast<T>(below(3)) / 8, y + static_cast<T>(1 + below(2)) / 8};
      overlaps[p] = static_cast<T>(below(8)) / 8;
      // Many are equal, all lie in one bin, or in bins of all sizes; some are no numbers or below
      // 0.
      losses[p] = round % 3 == 0   ? static_cast<T>(below(9))
                  : round % 3 == 1 ? static_cast<T>(3 + 1e-5 * below(1000))
                                   : static_cast<T>(std::exp(below(60) - 40) * below(7) - 1e-4);
      if (below(150) == 0) losses[p] = std::numeric_limits<T>::quiet_NaN();
      if (below(150) == 0) losses[p] = std::numeric_limits<T>::infinity();
    }
    for (const auto kind : {Mining::Kind::negatives, Mining::Kind::hard_examples}) {
      for (const int64_t top_k : {0, -1, 50}) {  // 0: no suppression
        Mining mining{.kind = kind, .samples = 1 + below(100)};
        mining.negatives_each = round % 2 == 0 ? 3.0F : 0.7F;
        if (top_k != 0) mining.suppression = {.threshold = 0.3, .top_k = top_k};
        std::vector<int32_t> actual = matches;
        const auto box_of = [&](int64_t p) {
          EXPECT_NE(top_k, 0) << "boxes are for suppression alone";
          return boxes[static_cast<size_t>(p)];
        };
        miner.mine(mining, actual, overlaps.data(), losses.data(), box_of);
        ASSERT_EQ(actual, sorted(mining, matches, overlaps, losses, boxes))
            << round << ' ' << top_k;
      }
    }
  }
}

TEST(Miner, ChoosesWhatASortOfAllChooses) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    compare_with_sort<float>();
    compare_with_sort<double>();
  }
}

/// Estimates as far from exp(loss) - 1 as they may be, and further where the loss is huge.
template <class T>
void compare_estimates_with_sort() {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Miner<T> miner;
  for (int round = 0; round < 400; ++round) {
    const auto count = static_cast<size_t>(1 + below(700));
    std::vector<int32_t> matches(count);
    std::vector<T> overlaps(count), losses(count), estimates(count);
    for (size_t p = 0; p < count; ++p) {
      matches[p] = below(20) == 0 ? below(5) : below(10) == 0 ? kOutside : kUnmatched;
      overlaps[p] = static_cast<T>(below(8)) / 8;
      // All are equal, lie close together, or far apart; some are no numbers.
      const double loss = round % 4 == 0   ? 0.7
                          : round % 4 == 1 ? 0.7 + 1e-4 * below(1000)
                          : round % 4 == 2 ? 1e-5 * below(40)
                                           : std::exp(below(60) - 50) * below(7);
      losses[p] = static_cast<T>(loss);
      const double error = below(2) == 0 ? 0.999 : below(2) == 0 ? 1.063 : 1 + 1e-3 * below(60);
      estimates[p] = static_cast<T>((std::expm1(loss) + 1e-3) * error);
      if (round % 3 != 0 || below(100) != 0) continue;
      losses[p] =
          below(2) == 0 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(71 + below(4));
      estimates[p] = static_cast<T>(std::exp2(101 + below(20)));
    }
    for (const float each : {0.0F, 0.7F, 3.0F, 1000.0F}) {  // the last one: more than there are
      Mining mining{.kind = Mining::Kind::negatives, .negatives_each = each};
      std::vector<int32_t> actual = matches;
      miner.mine_estimated(mining, actual, overlaps.data(), estimates.data(),
                           [&](std::span<Candidate<T>> candidates) {
                             for (auto& one : candidates)
                               one.score = losses[static_cast<size_t>(one.index)];
                           });
      ASSERT_EQ(actual, sorted<T>(mining, matches, overlaps, losses, {})) << round << ' ' << each;
    }
  }
}

TEST(Miner, EstimatesChooseWhatLossesChoose) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    compare_estimates_with_sort<float>();
    compare_estimates_with_sort<double>();
  }
}

TEST(IndexList, ListsWhatLiesInTheRange) {
  IndexList list;
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    std::vector<int32_t> values;
    for (int n = 0; n < 70; ++n) {
      std::vector<int32_t> expected;
      for (int i = 0; i < n; ++i) {
        if (values[static_cast<size_t>(i)] >= -2 && values[static_cast<size_t>(i)] <= 1)
          expected.push_back(i);
      }
      const auto found = list.find(values, -2, 1);
      EXPECT_EQ(std::vector<int32_t>(found.begin(), found.end()), expected) << n;
      values.push_back(n * 7 % 9 - 4);
    }
  }
}

}  // namespace
}  // namespace crema::test
