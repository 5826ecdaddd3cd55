// Sums along an axis, one for each position beside it. Sources that call position_sums() include
// layer_support/passes.hpp themselves, so that nvcc compiles them.
#pragma once

#include "layer_support/passes.hpp"

namespace crema {

/// See position_sums().
template <class Term, class Finish>
struct PositionSums {
  AxisSplit split;
  Term term;
  Finish finish;

  void on_host(int64_t begin, int64_t end) const {
    if (split.inner == 1) {
      const Term of_place = term;
      for (int64_t i = begin; i < end; ++i) {
        finish(i, sum_of_piece(i * split.size, (i + 1) * split.size, of_place));
      }
      return;
    }
    // Neighbouring positions together: their terms are neighbours in memory.
    constexpr int64_t kTogether = 128;
    for (int64_t i = begin; i < end;) {
      const int64_t count = std::min({kTogether, split.inner - i % split.inner, end - i});
      std::array<double, kTogether> sums{};
      for (int64_t k = 0; k < split.size; ++k) {
        const int64_t at = split.at(i) + k * split.inner;
        for (int64_t j = 0; j < count; ++j) sums[static_cast<size_t>(j)] += term(at + j);
      }
      for (int64_t j = 0; j < count; ++j) finish(i + j, sums[static_cast<size_t>(j)]);
      i += count;
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t k = lanes.first; k < split.size; k += lanes.count) {
      sum += term(split.at(i) + k * split.inner);
    }
    sum = lanes.sum(sum);
    if (lanes.first == 0) finish(i, sum);
  }
};

/// For each position i of the split: finish(i, the sum of double term(place) over the axis).
/// The order of the terms depends on the split only. An empty axis gives 0.
template <class Side, class Term, class Finish>
void position_sums(const Side& device, const AxisSplit& split, const Term& term,
                   const Finish& finish) {
  // for_each_position() divides its grain by the size.
  AxisSplit filled = split;
  filled.size = std::max<int64_t>(split.size, 1);
  for_each_position(device, filled, kPassGrain, PositionSums<Term, Finish>{split, term, finish});
}

}  // namespace crema
