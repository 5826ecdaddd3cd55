#include "layers/multibox_loss/mining.hpp"

#include <bit>
#include <limits>

#include "core/simd.hpp"

namespace crema {
namespace {

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
    const float positive = loss > 0 ? loss : 0;
    const float known = loss == loss ? positive : std::numeric_limits<float>::infinity();
    const int32_t bin = (std::bit_cast<int32_t>(known) >> 20) + 1;
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
int32_t Miner<T>::choose_largest(int64_t wanted, const T* losses) {
  int32_t bin = kTopBin;
  for (; bin > 0 && sizes_[static_cast<size_t>(bin)] <= wanted; --bin)
    wanted -= sizes_[static_cast<size_t>(bin)];
  candidates_.clear();
  if (wanted == 0) return bin;
  collect(bin - 1, bin, losses);
  std::nth_element(candidates_.begin(), candidates_.begin() + wanted, candidates_.end());
  candidates_.resize(static_cast<size_t>(wanted));
  return bin;
}

template <class T>
void Miner<T>::collect(int32_t below, int32_t last, const T* losses) {
  candidates_.clear();
  // Without branches: it is hard to foresee which priors these are.
  candidates_.resize(bins_.size() + 1);
  size_t count = 0;
  for (size_t p = 0; p < bins_.size(); ++p) {
    const T loss = losses[p];
    candidates_[count] = {loss == loss ? loss : std::numeric_limits<T>::infinity(),
                          static_cast<int32_t>(p)};
    count += bins_[p] > below && bins_[p] <= last ? 1 : 0;
  }
  candidates_.resize(count);
}

template <class T>
void Miner<T>::mark(const Mining& mining, int32_t least, std::span<int32_t> matches) const {
  const bool hard = mining.kind == Mining::Kind::hard_examples;
  vectorized<mark_chosen>(static_cast<int64_t>(matches.size()), bins_.data(), least,
                          hard ? kUnmatched : std::numeric_limits<int32_t>::max(), matches.data());
}

template class Miner<float>;
template class Miner<double>;

}  // namespace crema
