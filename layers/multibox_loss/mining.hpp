// Which priors of an image count: all matched ones and the negatives with the largest losses, or
// the priors with the largest losses whether they are matched or not.
//
// Order: by falling loss; among equal losses, the lower prior first. A loss that is NaN comes
// first, so that it is seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kit/matching.hpp"

namespace crema {

/// Further values of a match, beside those of kit/matching.hpp.
inline constexpr int32_t kNegative = -3;   // chosen as an example of background
inline constexpr int32_t kDifficult = -4;  // matched with a box that is to be ignored

struct Mining {
  enum class Kind : uint8_t { none, negatives, hard_examples } kind = Kind::none;
  float negatives_each = 3;       // for each positive
  double negative_overlap = 0.5;  // priors that overlap less are negatives
  int64_t samples = 64;           // hard examples an image
  std::optional<Suppression> suppression = {};
};

/// Memory of one thread.
template <class T>
struct MiningScratch {
  std::vector<Candidate<T>> candidates;
  std::vector<bool> chosen;
  BoxColumns<T> columns;
  std::vector<int32_t> kept;
};

namespace mining_detail {

/// Boxes below this area are never chosen with suppression.
inline constexpr double kLeastArea = 1e-5;

/// Reduces the candidates to the first `most` that suppression keeps.
template <class T, class BoxOf>
void suppress_candidates(const Suppression& settings, const BoxOf& box_of, int64_t most,
                         MiningScratch<T>& scratch) {
  auto& candidates = scratch.candidates;
  sort_candidates(candidates, settings.top_k);
  std::erase_if(candidates, [&](const Candidate<T>& candidate) {
    return !(area(box_of(candidate.index)) >= T(kLeastArea));
  });
  const auto box_of_candidate = [&](int64_t k) {
    return box_of(candidates[static_cast<size_t>(k)].index);
  };
  suppress<T>(settings, static_cast<int64_t>(candidates.size()), box_of_candidate, scratch.columns,
              scratch.kept, most);
  for (size_t k = 0; k < scratch.kept.size(); ++k)
    candidates[k] = candidates[static_cast<size_t>(scratch.kept[k])];
  candidates.resize(scratch.kept.size());
}

}  // namespace mining_detail

/// Changes matches: negatives that were chosen become kNegative, and hard examples that were not
/// chosen kUnmatched. `overlaps` are those of BoxMatcher. Calls loss_of(prior) -> double and
/// box_of(prior) -> BoundingBox<T>.
template <class T, class LossOf, class BoxOf>
void mine(const Mining& mining, std::span<int32_t> matches, const T* overlaps,
          const LossOf& loss_of, const BoxOf& box_of, MiningScratch<T>& scratch) {
  const bool hard = mining.kind == Mining::Kind::hard_examples;
  auto& candidates = scratch.candidates;
  candidates.clear();
  int64_t positives = 0;
  for (size_t p = 0; p < matches.size(); ++p) {
    positives += matches[p] >= 0 ? 1 : 0;
    const bool eligible =
        hard ? matches[p] >= kUnmatched
             : matches[p] == kUnmatched && overlaps[p] < static_cast<T>(mining.negative_overlap);
    if (!eligible) continue;
    const auto loss = static_cast<T>(loss_of(static_cast<int64_t>(p)));
    candidates.push_back(
        {loss == loss ? loss : std::numeric_limits<T>::infinity(), static_cast<int32_t>(p)});
  }
  const float wanted = static_cast<float>(positives) * mining.negatives_each;
  int64_t count = mining.samples;
  if (!hard) {
    const bool all = wanted >= static_cast<float>(candidates.size());
    count = all ? static_cast<int64_t>(candidates.size()) : static_cast<int64_t>(wanted);
  }
  if (mining.suppression) {
    mining_detail::suppress_candidates(*mining.suppression, box_of, count, scratch);
  } else if (count < static_cast<int64_t>(candidates.size())) {
    std::nth_element(candidates.begin(), candidates.begin() + count, candidates.end());
  }
  if (count < static_cast<int64_t>(candidates.size()))
    candidates.resize(static_cast<size_t>(count));
  scratch.chosen.assign(matches.size(), false);
  for (const auto& candidate : candidates)
    scratch.chosen[static_cast<size_t>(candidate.index)] = true;
  for (size_t p = 0; p < matches.size(); ++p) {
    if (matches[p] >= 0 && hard && !scratch.chosen[p])
      matches[p] = kUnmatched;
    else if (matches[p] == kUnmatched && scratch.chosen[p])
      matches[p] = kNegative;
  }
}

}  // namespace crema
