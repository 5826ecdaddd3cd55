// Sums on one thread of the host.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

namespace crema {

/// The sum of term(i) over [begin, end): eight sums in turn, since each addition to one has to wait
/// for the last.
template <class Term>
double sum_of_piece(int64_t begin, int64_t end, const Term& term) {
  constexpr int64_t kSums = 8;
  std::array<double, kSums> sums{};
  int64_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (int64_t k = 0; k < kSums; ++k) sums[static_cast<size_t>(k)] += term(i + k);
  }
  for (; i < end; ++i) sums[static_cast<size_t>((i - begin) % kSums)] += term(i);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace crema
