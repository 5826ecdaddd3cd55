// Operands that broadcast as in numpy: a tensor with fewer axes, or with axes of extent 1, repeats
// along those axes of the whole. Sources that call spread_sums() or spread_apply() include
// layer_support/passes.hpp themselves, so that nvcc compiles them.
//
//   Spread<N>        where N operands have the element that belongs to one of the whole
//   spread_apply()   computes each element of the whole
//   spread_sums()    adds up, for each element of an operand, all places where it repeats
//
// Both work on runs: neighbours along the innermost axis of the whole, in which an operand has
// neighbours too (step 1), or one element (step 0). Kernels of runs are plain loops that vectorize.
#pragma once

#include <algorithm>
#include <array>

#include "crema/blob.hpp"
#include "crema/error.hpp"
#include "layer_support/passes.hpp"

namespace crema {

/// The shape that the bottoms broadcast to. Error, with `layer`'s bottoms, if they do not.
Shape broadcast_shape(Blobs bottoms);

/// The distance in memory, one an axis of the whole, between neighbours of a dense operand: 0 where
/// it repeats. The operand broadcasts to the whole.
std::vector<int64_t> spread_strides(const Shape& operand, const Shape& whole);

inline constexpr int kSpreadAxes = 8;

/// Throws the Error of a shape that does not become kSpreadAxes axes when neighbours are joined.
[[noreturn]] void refuse_spread(const Shape& whole);

template <int N>
struct Spread {
  struct Places {
    int64_t of[N] = {};
  };
  int rank = 0;
  int64_t extent[kSpreadAxes] = {};
  int64_t stride[N][kSpreadAxes] = {};

  /// Where the operands have what belongs to element i of the whole.
  CREMA_FUNCTOR Places at(int64_t i) const {
    Places places;
    for (int a = rank - 1; a >= 0; --a) {
      const int64_t next = i / extent[a], k = i - next * extent[a];
      for (int n = 0; n < N; ++n) places.of[n] += k * stride[n][a];
      i = next;
    }
    return places;
  }
  CREMA_FUNCTOR int64_t inner() const { return rank == 0 ? 1 : extent[rank - 1]; }
  /// Of operand n along the innermost axis.
  CREMA_FUNCTOR int64_t step(int n) const { return rank == 0 ? 1 : stride[n][rank - 1]; }
  int64_t count() const {
    int64_t all = 1;
    for (int a = 0; a < rank; ++a) all *= extent[a];
    return all;
  }
  void add(int64_t size, const std::array<int64_t, N>& strides) {
    extent[rank] = size;
    for (int n = 0; n < N; ++n) stride[n][rank] = strides[static_cast<size_t>(n)];
    ++rank;
  }
};

/// For dense operands of these shapes. Axes that all operands walk through alike are joined. Error
/// if more than kSpreadAxes are left.
template <int N>
Spread<N> spread_of(const Shape& whole, const std::array<Shape, N>& operands) {
  std::array<std::vector<int64_t>, N> strides;
  for (size_t n = 0; n < N; ++n) strides[n] = spread_strides(operands[n], whole);
  Spread<N> spread;
  for (int a = 0; a < whole.rank(); ++a) {
    const int64_t size = whole[a];
    if (size == 1) continue;
    std::array<int64_t, N> steps;
    bool joins = spread.rank > 0;
    for (size_t n = 0; n < N; ++n) {
      steps[n] = strides[n][static_cast<size_t>(a)];
      joins = joins && spread.stride[n][spread.rank - 1] == steps[n] * size;
    }
    if (joins) {
      --spread.rank;
      spread.add(spread.extent[spread.rank] * size, steps);
    } else {
      if (spread.rank == kSpreadAxes) refuse_spread(whole);
      spread.add(size, steps);
    }
  }
  return spread;
}

/// Calls run(i, places, count) for the runs of [begin, end).
template <int N, class Run>
void for_each_run(const Spread<N>& spread, int64_t begin, int64_t end, const Run& run) {
  const int64_t inner = spread.inner();
  for (int64_t i = begin; i < end;) {
    const int64_t count = std::min(end - i, inner - i % inner);
    run(i, spread.at(i), count);
    i += count;
  }
}

/// See spread_apply().
template <int N, class Term, class Out>
struct SpreadApply {
  Spread<N> spread;
  Term term;
  Out to;

  void on_host(int64_t begin, int64_t end) const {
    for_each_run(spread, begin, end, [&](int64_t i, const auto& places, int64_t count) {
      term.run(spread, places, count, to + i);
    });
  }
  CREMA_FUNCTOR void operator()(int64_t i) const { to[i] = term(spread.at(i)); }
};

/// Element i of `to`, dense, = term(places). On the host, term.run(spread, places, count, to)
/// computes a run instead.
template <class Side, int N, class Term, class Out>
void spread_apply(const Side& side, const Spread<N>& spread, const Term& term, Out to) {
  for_each(side, spread.count(), kPassGrain, SpreadApply<N, Term, Out>{spread, term, to});
}

/// The axes of a Spread along which an operand goes on, and those along which it repeats.
template <int N>
struct SpreadSplit {
  Spread<N> kept, rest;
  bool keeps_inner = true;  // the innermost axis is a kept one

  SpreadSplit() = default;
  SpreadSplit(const Spread<N>& spread, const std::vector<bool>& keeps) {
    for (int a = 0; a < spread.rank; ++a) {
      std::array<int64_t, N> steps;
      for (int n = 0; n < N; ++n) steps[static_cast<size_t>(n)] = spread.stride[n][a];
      keeps_inner = keeps[static_cast<size_t>(a)];
      (keeps_inner ? kept : rest).add(spread.extent[a], steps);
    }
  }
  /// For the axes of operand n.
  SpreadSplit(const Spread<N>& spread, int n) : SpreadSplit(spread, kept_of(spread, n)) {}

 private:
  static std::vector<bool> kept_of(const Spread<N>& spread, int n) {
    std::vector<bool> keeps;
    for (int a = 0; a < spread.rank; ++a) keeps.push_back(spread.stride[n][a] != 0);
    return keeps;
  }
};

/// What spread_sums() does with the values of the terms.
struct AddUp {
  CREMA_FUNCTOR static double first() { return 0; }
  CREMA_FUNCTOR static double join(double a, double b) { return a + b; }
  template <class Lanes>
  CREMA_FUNCTOR static double over(const Lanes& lanes, double value) {
    return lanes.sum(value);
  }
};

/// See spread_sums().
template <int N, class Fold, class Term, class Finish>
struct SpreadSums {
  static constexpr int64_t kRun = 256;
  SpreadSplit<N> split;
  int64_t size;  // places of an element
  Term term;
  Finish finish;

  using Places = typename Spread<N>::Places;
  CREMA_FUNCTOR static Places sum(Places a, const Places& b) {
    for (int n = 0; n < N; ++n) a.of[n] += b.of[n];
    return a;
  }

  void on_host(int64_t begin, int64_t end) const {
    std::array<typename Term::Value, kRun> values;
    if (split.keeps_inner) {
      // Neighbouring elements together.
      const int64_t inner = split.kept.inner();
      for (int64_t i = begin; i < end;) {
        const int64_t count = std::min({kRun, end - i, inner - i % inner});
        const Places first = split.kept.at(i);
        std::array<double, kRun> sums;
        sums.fill(Fold::first());
        for (int64_t k = 0; k < size; ++k) {
          term.run(split.kept, sum(first, split.rest.at(k)), count, values.data());
          join_each(values.data(), count, sums.data());
        }
        for (int64_t j = 0; j < count; ++j) finish(i + j, sums[static_cast<size_t>(j)]);
        i += count;
      }
      return;
    }
    const int64_t inner = split.rest.inner();
    for (int64_t i = begin; i < end; ++i) {
      const Places first = split.kept.at(i);
      double all = Fold::first();
      for (int64_t k = 0; k < size;) {
        const int64_t count = std::min({kRun, size - k, inner - k % inner});
        term.run(split.rest, sum(first, split.rest.at(k)), count, values.data());
        all = Fold::join(all, joined(values.data(), count));
        k += count;
      }
      finish(i, all);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const Places first = split.kept.at(i);
    double all = Fold::first();
    for (int64_t k = lanes.first; k < size; k += lanes.count) {
      all = Fold::join(all, static_cast<double>(term(sum(first, split.rest.at(k)))));
    }
    all = Fold::over(lanes, all);
    if (lanes.first == 0) finish(i, all);
  }

 private:
  template <class V>
  static void join_each(const V* values, int64_t count, double* sums) {
    for (int64_t j = 0; j < count; ++j)
      sums[j] = Fold::join(sums[j], static_cast<double>(values[j]));
  }
  /// In eight rows of terms, which one after the other would wait for each other.
  template <class V>
  static double joined(const V* values, int64_t count) {
    constexpr int64_t kRows = 8;
    double rows[kRows];
    for (double& row : rows) row = Fold::first();
    int64_t j = 0;
    for (; j + kRows <= count; j += kRows) {
      for (int64_t r = 0; r < kRows; ++r) {
        rows[r] = Fold::join(rows[r], static_cast<double>(values[j + r]));
      }
    }
    for (; j < count; ++j) rows[0] = Fold::join(rows[0], static_cast<double>(values[j]));
    for (int64_t r = 1; r < kRows; ++r) rows[0] = Fold::join(rows[0], rows[r]);
    return rows[0];
  }
};

/// For each element i of the kept axes: finish(i, the fold, in double, of term(places) over the
/// others). On the host, term.run(spread, places, count, to) computes the values of a run, of type
/// Term::Value. The order of the terms does not depend on the number of threads.
template <class Fold = AddUp, class Side, int N, class Term, class Finish>
void spread_sums(const Side& side, const SpreadSplit<N>& split, const Term& term,
                 const Finish& finish) {
  const int64_t size = split.rest.count();
  AxisSplit positions;
  positions.size = std::max<int64_t>(size, 1);
  positions.inner = split.keeps_inner ? split.kept.inner() : 1;
  positions.outer = positions.inner == 0 ? 0 : split.kept.count() / positions.inner;
  for_each_position(side, positions, kPassGrain,
                    SpreadSums<N, Fold, Term, Finish>{split, size, term, finish});
}

/// Stores a sum as a value.
template <class T, class Out>
struct StoreSpreadSum {
  Out to;
  CREMA_FUNCTOR void operator()(int64_t i, double sum) const { to[i] = static_cast<T>(sum); }
};

}  // namespace crema
