// Which priors of an image count: all matched ones and the negatives with the largest losses, or
// the priors with the largest losses whether they are matched or not.
//
// Order: by falling loss; among equal losses, the lower prior first. A loss that is NaN comes
// first, so that it is seen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "layer_support/matching.hpp"
#include "layers/multibox_loss/index_list.hpp"

namespace crema {

/// Further values of a match, beside those of layer_support/matching.hpp.
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
    const auto find_losses = [&](std::span<Candidate<T>> candidates) {
      for (auto& candidate : candidates) candidate.score = losses[candidate.index];
    };
    const int64_t wanted = sort_into_bins(mining, matches, overlaps, losses);
    int32_t least = kTopBin;  // bins above it are chosen
    if (mining.suppression) {
      collect(0, kTopBin, find_losses);
      suppress_candidates(*mining.suppression, box_of, wanted);
    } else {
      least = choose_largest(wanted, 0, find_losses);
    }
    mark(mining, least, matches);
  }

  /// The same choice without suppression, from estimates: with a function g that rises with the
  /// loss, an estimate lies between 0.999 g and 1.063 g. It lies above 2^100 where g does, and
  /// where the loss is NaN. Where estimates do not decide, calls
  /// find_losses(std::span<Candidate<T>>), which writes the loss of each `index` to `score`.
  template <class FindLosses>
  void mine_estimated(const Mining& mining, std::span<int32_t> matches, const T* overlaps,
                      const T* estimates, const FindLosses& find_losses) {
    const int64_t wanted = sort_into_bins(mining, matches, overlaps, estimates);
    // Each bin begins at 16 / 15 of the one below it, or more: estimates are one bin off at most.
    mark(mining, choose_largest(wanted, 1, find_losses), matches);
  }

 private:
  // Bin 0 has the priors that may not be chosen. Other bins are the first bits of a loss in f32:
  // 3 of the mantissa. What is above 2^100, or NaN, lies in the last one.
  static constexpr int32_t kTopBin = ((127 + 100) << 3) + 1;
  /// Boxes below this area are never chosen with suppression.
  static constexpr double kLeastArea = 1e-5;

  /// Returns the number of priors that are to be chosen.
  int64_t sort_into_bins(const Mining& mining, std::span<const int32_t> matches, const T* overlaps,
                         const T* losses);
  /// The bin of the last one chosen, if as many with the highest bins are; 0 if all are.
  int32_t last_bin(int64_t wanted) const;
  /// candidates_ = the priors whose bins lie in (below, last].
  void list_candidates(int32_t below, int32_t last);
  void mark(const Mining& mining, int32_t least, std::span<int32_t> matches);

  /// candidates_ = the same with their losses.
  template <class FindLosses>
  void collect(int32_t below, int32_t last, const FindLosses& find_losses) {
    list_candidates(below, last);
    find_losses(std::span(candidates_));
    for (auto& candidate : candidates_) {
      if (candidate.score != candidate.score) candidate.score = std::numeric_limits<T>::infinity();
    }
  }

  /// Chooses as many priors with the largest losses, where bins `unsure` beside the last one may
  /// have others of them. Returns the bin above which all are chosen; candidates_ are those chosen
  /// of the bins up to it.
  template <class FindLosses>
  int32_t choose_largest(int64_t wanted, int32_t unsure, const FindLosses& find_losses) {
    candidates_.clear();
    const int32_t bin = last_bin(wanted);
    if (bin == 0) return 0;
    const int32_t last = std::min(bin + unsure, kTopBin);
    for (int32_t above = kTopBin; above > last; --above)
      wanted -= sizes_[static_cast<size_t>(above)];
    collect(std::max(bin - unsure, 1) - 1, last, find_losses);
    std::nth_element(candidates_.begin(), candidates_.begin() + wanted, candidates_.end());
    candidates_.resize(static_cast<size_t>(wanted));
    return last;
  }

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
  IndexList list_;
  std::vector<Candidate<T>> candidates_;
  BoxColumns<T> columns_;
  std::vector<int32_t> kept_;
};

}  // namespace crema
