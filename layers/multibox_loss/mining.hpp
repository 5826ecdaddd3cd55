// Which priors of an image count: all matched ones and the negatives with the largest losses, or
// the priors with the largest losses whether they are matched or not.
//
// Order: by falling loss; among equal losses, the lower prior first. A loss that is NaN comes
// first, so that it is seen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
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

/// The priors of an image that may be chosen, and those that are. Priors lie in bins by their loss:
/// the larger the loss, the higher the bin.
template <class T>
class Miner {
 public:
  /// Changes matches: negatives that were chosen become kNegative, and hard examples that were not
  /// chosen kUnmatched. `overlaps` are those of BoxMatcher, `losses` those of all priors. Calls
  /// box_of(prior) -> BoundingBox<T> if the settings suppress.
  template <class BoxOf>
  void mine(const Mining& mining, std::span<int32_t> matches, const T* overlaps, const T* losses,
            const BoxOf& box_of) {
    const int64_t wanted = sort_into_bins(mining, matches, overlaps, losses);
    int32_t least = kTopBin;  // bins above it are chosen
    if (mining.suppression) {
      collect(0, kTopBin, losses);
      suppress_candidates(*mining.suppression, box_of, wanted);
    } else {
      least = choose_largest(wanted, losses);
    }
    for (const auto& candidate : candidates_) {
      bins_[static_cast<size_t>(candidate.index)] = kTopBin + 1;
    }
    mark(mining, least, matches);
  }

 private:
  // Bin 0 has the priors that may not be chosen. Other bins are the first bits of a loss in f32:
  // 3 of the mantissa.
  static constexpr int32_t kTopBin = 1 << 11;
  /// Boxes below this area are never chosen with suppression.
  static constexpr double kLeastArea = 1e-5;

  /// Returns the number of priors that are to be chosen.
  int64_t sort_into_bins(const Mining& mining, std::span<const int32_t> matches, const T* overlaps,
                         const T* losses);
  /// Chooses as many priors with the largest losses. Returns the bin above which all are chosen;
  /// candidates_ are those of this bin that are chosen.
  int32_t choose_largest(int64_t wanted, const T* losses);
  /// candidates_ = the priors whose bins lie in (below, last].
  void collect(int32_t below, int32_t last, const T* losses);
  void mark(const Mining& mining, int32_t least, std::span<int32_t> matches) const;

  /// Reduces the candidates to the first `most` that suppression keeps.
  template <class BoxOf>
  void suppress_candidates(const Suppression& settings, const BoxOf& box_of, int64_t most) {
    sort_candidates(candidates_, settings.top_k);
    std::erase_if(candidates_, [&](const Candidate<T>& candidate) {
      return !(area(box_of(candidate.index)) >= T(kLeastArea));
    });
    const auto box_of_candidate = [&](int64_t k) {
      return box_of(candidates_[static_cast<size_t>(k)].index);
    };
    suppress<T>(settings, static_cast<int64_t>(candidates_.size()), box_of_candidate, columns_,
                kept_, most);
    for (size_t k = 0; k < kept_.size(); ++k)
      candidates_[k] = candidates_[static_cast<size_t>(kept_[k])];
    candidates_.resize(kept_.size());
  }

  // Memory for one image at a time.
  std::vector<int32_t> bins_;                 // of each prior
  std::array<int32_t, kTopBin + 1> sizes_{};  // of each bin
  std::vector<Candidate<T>> candidates_;
  BoxColumns<T> columns_;
  std::vector<int32_t> kept_;
};

}  // namespace crema
