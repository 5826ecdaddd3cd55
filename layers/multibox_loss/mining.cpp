#include "layers/multibox_loss/mining.hpp"

#include <bit>
#include <limits>

#include "core/simd.hpp"

namespace crema {
namespace {

constexpr float kMost = 0x1p100F;  // larger losses lie in one bin

/// Priors with a match in [kUnmatched, last] and an overlap below `most` may be chosen.
template <class T>
[[gnu::always_inline]] inline void find_bins(int64_t count, const int32_t* matches,
                                             const T* overlaps, const T* losses, int32_t last,
                                             T most, int32_t* bins, int64_t* positives) {
  int64_t matched = 0;
#pragma omp simd reduction(+ : matched)
  for (int64_t p = 0; p < count; ++p) {
    const int32_t match = matches[p];
    matched += match >= 0 ? 1 : 0;
    const auto loss = static_cast<float>(losses[p]);
    const float finite = loss < kMost ? loss : kMost;
    const float positive = finite > 0 ? finite : 0;
    const int32_t bin = (std::bit_cast<int32_t>(positive) >> 20) + 1;
    const bool may = (match >= kUnmatched) & (match <= last) & (overlaps[p] < most);
    bins[p] = may ? bin : 0;
  }
  *positives = matched;
}

[[gnu::always_inline]] inline void mark_chosen(int64_t count, const int32_t* bins, int32_t least,
                                               int32_t of_others, int32_t* matches) {
#pragma omp simd
  for (int64_t p = 0; p < count; ++p) {
    const int32_t match = matches[p];
    const int32_t chosen = match == kUnmatched ? kNegative : match;
    const int32_t other = match > of_others ? kUnmatched : match;
    matches[p] = bins[p] > least ? chosen : other;
  }
}

}  // namespace

template <class T>
int64_t Miner<T>::sort_into_bins(const Mining& mining, std::span<const int32_t> matches,
                                 const T* overlaps, const T* losses) {
  const bool hard = mining.kind == Mining::Kind::hard_examples;
  const auto count = static_cast<int64_t>(matches.size());
  bins_.resize(matches.size());
  int64_t positives = 0;
  vectorized<find_bins<T>>(
      count, matches.data(), overlaps, losses,
      hard ? std::numeric_limits<int32_t>::max() : kUnmatched,
      hard ? std::numeric_limits<T>::infinity() : static_cast<T>(mining.negative_overlap),
      bins_.data(), &positives);
  sizes_.fill(0);
  for (const int32_t bin : bins_) ++sizes_[static_cast<size_t>(bin)];
  const int64_t eligible = count - sizes_[0];
  if (hard) return std::min(mining.samples, eligible);
  const float wanted = static_cast<float>(positives) * mining.negatives_each;
  return wanted >= static_cast<float>(eligible) ? eligible : static_cast<int64_t>(wanted);
}

template <class T>
int32_t Miner<T>::last_bin(int64_t wanted) const {
  int32_t bin = kTopBin;
  for (; bin > 0 && sizes_[static_cast<size_t>(bin)] <= wanted; --bin)
    wanted -= sizes_[static_cast<size_t>(bin)];
  return bin;
}

template <class T>
void Miner<T>::list_candidates(int32_t below, int32_t last) {
  candidates_.clear();
  for (const int32_t p : list_.find(bins_, below + 1, last)) candidates_.push_back({T{}, p});
}

template <class T>
void Miner<T>::mark(const Mining& mining, int32_t least, std::span<int32_t> matches) {
  for (const auto& candidate : candidates_) {
    bins_[static_cast<size_t>(candidate.index)] = kTopBin + 1;
  }
  const bool hard = mining.kind == Mining::Kind::hard_examples;
  vectorized<mark_chosen>(static_cast<int64_t>(matches.size()), bins_.data(), least,
                          hard ? kUnmatched : std::numeric_limits<int32_t>::max(), matches.data());
}

template class Miner<float>;
template class Miner<double>;

}  // namespace crema
