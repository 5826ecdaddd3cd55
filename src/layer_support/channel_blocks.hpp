// What blocks of threads of a device do for maps whose channels have sums or coefficients of their
// own: sums in two stages, and maps. A block has phases, between which its threads wait for each
// other; what a phase leaves for the next one lies in memory that they share. The phases run on the
// host too, a thread after the other: for the device of the tests.
//
// Numbers: a thread adds up at most some 512 terms (kSumLimits in channel_passes.cpp, rounded up)
// in the type that it computes in (f32 for f32 and 16 bits), for each channel of its vector, or
// each place of it. All further sums are in f64, in an order that the shapes and the device give.
// So a sum is off by at most 512 * 2^-24 of the sum of the terms' magnitudes. Terms of moments are
// differences from a value that the thread reads of the channel, and their squares: magnitudes are
// those of the spread, not of the mean. In f64 they become differences from one value of the
// channel, its origin, where that costs at most (spread of the origin / deviation)^2 * 2^-52.
#pragma once

#include "layer_support/channel_grid.hpp"
#include "layer_support/channel_terms.hpp"

namespace crema::channels {

/// The vectors of all operands at some places, `step` apart, read before any is used.
template <class Pass, int kAtOnce>
struct Fetched {
  using S = typename Pass::Stored;
  VectorWords words[kAtOnce][Pass::kOperands];

  CREMA_FUNCTOR Fetched(const Pass& pass, int64_t place, int64_t step) {
    for (int u = 0; u < kAtOnce; ++u) {
      for (int o = 0; o < Pass::kOperands; ++o) {
        words[u][o] =
            pass.from[o] != nullptr ? load_words(pass.from[o] + place + u * step) : VectorWords{};
      }
    }
  }
  CREMA_FUNCTOR void values(int u, Wide<S> (&to)[Pass::kOperands][kVector<S>]) const {
    for (int o = 0; o < Pass::kOperands; ++o) unpack<S>(words[u][o], to[o]);
  }
};

/// The operands of one element.
template <class Pass>
CREMA_FUNCTOR void fetch_element(const Pass& pass, int64_t place,
                                 Wide<typename Pass::Stored> (&to)[Pass::kOperands]) {
  for (int o = 0; o < Pass::kOperands; ++o) {
    to[o] =
        pass.from[o] != nullptr ? wide_value(pass.from[o][place]) : Wide<typename Pass::Stored>{0};
  }
}

/// A thread's rows of a piece: `count` from `place` on, in row `row`, `step` elements and
/// grid.lines rows apart; `some` channels of a vector.
struct ThreadRows {
  int64_t index = 0, row = 0, place = 0, step = 0, count = 0;
  int some = 0;

  CREMA_FUNCTOR ThreadRows(const ChannelGrid& grid, const ChannelGrid::Place& at, int thread) {
    const int line = thread / grid.width, column = thread - line * grid.width;
    const int64_t c = (at.group * grid.width + column) * grid.vector;
    if (line >= grid.lines || c >= grid.channels) return;
    some = grid.channels - c < grid.vector ? static_cast<int>(grid.channels - c) : grid.vector;
    index = at.sample * grid.channels + c;
    const int64_t first = at.piece * grid.each;
    const int64_t end = first + grid.each < grid.outer ? first + grid.each : grid.outer;
    row = at.sample * grid.outer + first + line;
    place = row * grid.channels + c;
    step = grid.lines * grid.channels;
    count = end > first + line ? (end - first - line + grid.lines - 1) / grid.lines : 0;
  }
};

/// A thread's planes of a piece: `count` from `place` on, `step` elements apart, each up to
/// `length` elements, of channel `index`.
struct ThreadPlanes {
  int64_t index = 0, place = 0, step = 0, count = 0, length = 0;
  int lane = 0;
  bool there = false;

  CREMA_FUNCTOR ThreadPlanes(const ChannelGrid& grid, const ChannelGrid::Place& at, int thread) {
    const int row = thread / grid.width, part = row / grid.lines, line = row - part * grid.lines;
    lane = thread - row * grid.width;
    index = at.group * grid.together + part;
    there = part < grid.together && index < grid.channels;
    if (!there) return;
    const int64_t range = at.piece / grid.segments, of_plane = at.piece - range * grid.segments;
    const int64_t first = range * grid.each;
    const int64_t end = first + grid.each < grid.outer ? first + grid.each : grid.outer;
    const int64_t begin = of_plane * grid.segment;
    length = begin + grid.segment < grid.inner ? grid.segment : grid.inner - begin;
    place = ((first + line) * grid.channels + index) * grid.inner + begin;
    step = grid.lines * grid.channels * grid.inner;
    if (length <= 0) return;
    count = end > first + line ? (end - first - line + grid.lines - 1) / grid.lines : 0;
  }
};

/// Calls vectors(place, step, count) for whole vectors of elements [begin, end) that this lane of
/// `width` has, `count` of them `step` apart, and elements(place, k) for what is left of them, k
/// being the place in a vector.
template <int kSize, class Vectors, class Elements>
CREMA_FUNCTOR void share_plane(int64_t begin, int64_t end, int lane, int width, bool aligned,
                               const Vectors& vectors, const Elements& elements) {
  if (!aligned) {
    for (int64_t i = begin + lane; i < end; i += int64_t{width} * kSize) {
      for (int k = 0; k < kSize; ++k) {
        if (i + k * width < end) elements(i + k * width, k);
      }
    }
    return;
  }
  const int64_t first = (begin + kSize - 1) & ~int64_t{kSize - 1}, last = end & ~int64_t{kSize - 1};
  if (lane == 0) {
    for (int k = 0; k < kSize; ++k) {
      if (first - kSize + k >= begin && first - kSize + k < end) elements(first - kSize + k, k);
    }
  }
  // Behind the last vector, unless that was the first part too.
  if (lane == width - 1 && last >= first) {
    for (int k = 0; k < kSize; ++k) {
      if (last + k < end) elements(last + k, k);
    }
  }
  const int64_t place = first + int64_t{lane} * kSize, step = int64_t{width} * kSize;
  if (place < last) vectors(place, step, (last - place + step - 1) / step);
}

/// The first stage of sums. Sum (piece, i) of channel number i is sums[piece * count + i]; of
/// moments, origins[i] becomes the origin. Sums of a single piece may end in gradients.
template <class Term>
struct SumBlocks {
  using S = typename Term::Stored;
  using W = Wide<S>;
  static constexpr int kSize = kVector<S>, kPhases = 3, kResident = Term::kResident, kFold = 16;

  ChannelGrid grid;
  Term term;
  SumPair* sums;
  double* origins;
  AddSums<W> end = {};

  /// Pairs that the threads of a block share.
  static int shared_of(bool rows) { return ChannelGrid::kThreads * (rows ? kSize : 1); }
  int shared() const { return shared_of(grid.rows()); }
  int64_t blocks() const { return grid.blocks(); }

  CREMA_FUNCTOR void run(int phase, int64_t block, int thread, SumPair* shared) const {
    const ChannelGrid::Place at = grid.place(block);
    if (phase == 1) return fold(thread, shared);
    if (phase == 2) return finish(at, thread, shared);
    if (Term::kByRow || grid.rows()) {
      add_rows(ThreadRows(grid, at, thread), thread, shared);
    } else if constexpr (!Term::kByRow) {
      add_planes(ThreadPlanes(grid, at, thread), thread, shared);
    }
  }

 private:
  template <class Row>
  CREMA_FUNCTOR void add_vector(const W (&in)[Term::kOperands][kSize],
                                const typename Term::template Of<kSize>& of, const Row& row,
                                W (&first)[kSize], W (&second)[kSize]) const {
    for (int k = 0; k < kSize; ++k) {
      W one[Term::kOperands];
      for (int o = 0; o < Term::kOperands; ++o) one[o] = in[o][k];
      term.add(one, of, row, k, first[k], second[k]);
    }
  }

  /// What a thread leaves of `count` terms of channel k of `of`, which is channel number i.
  template <class Of>
  CREMA_FUNCTOR SumPair total_of(const Of& of, int k, int64_t i, int64_t count, double first,
                                 double second) const {
    if constexpr (Term::kHasOrigin) {
      return term.total(of, k, grid.origin(i), static_cast<double>(count), first, second);
    } else {
      return {first, second};
    }
  }

  CREMA_FUNCTOR void add_rows(const ThreadRows& rows, int thread, SumPair* shared) const {
    if (rows.count == 0) {
      for (int k = 0; k < kSize; ++k) shared[k * ChannelGrid::kThreads + thread] = {};
      return;
    }
    constexpr int kAtOnce = Term::kAtOnce;
    const auto of = term.template of<kSize>(rows.index, rows.some, rows.place, grid.aligned);
    W first[kSize] = {}, second[kSize] = {}, in[Term::kOperands][kSize];
    int64_t place = rows.place, row = rows.row, left = rows.count;
    if (grid.aligned) {
      for (; left >= kAtOnce; left -= kAtOnce, place += kAtOnce * rows.step) {
        const Fetched<Term, kAtOnce> fetched(term, place, rows.step);
        for (int u = 0; u < kAtOnce; ++u, row += grid.lines) {
          fetched.values(u, in);
          add_vector(in, of, term.row(row), first, second);
        }
      }
      for (; left > 0; --left, place += rows.step, row += grid.lines) {
        Fetched<Term, 1>(term, place, 0).values(0, in);
        add_vector(in, of, term.row(row), first, second);
      }
    } else {
      for (; left > 0; --left, place += rows.step, row += grid.lines) {
        const auto of_row = term.row(row);
        for (int k = 0; k < kSize; ++k) {
          if (k >= rows.some) continue;
          W one[Term::kOperands];
          fetch_element(term, place + k, one);
          term.add(one, of, of_row, k, first[k], second[k]);
        }
      }
    }
    for (int k = 0; k < kSize; ++k) {
      SumPair total;
      if (k < rows.some) {
        total = total_of(of, k, rows.index + k, rows.count, static_cast<double>(first[k]),
                         static_cast<double>(second[k]));
      }
      shared[k * ChannelGrid::kThreads + thread] = total;
    }
  }

  CREMA_FUNCTOR void add_planes(const ThreadPlanes& planes, int thread, SumPair* shared) const {
    if (planes.count == 0) {
      shared[thread] = {};
      return;
    }
    constexpr int kAtOnce = Term::kAtOnce;
    const auto of = term.template of<1>(planes.index, 1, planes.place, false);
    W first[kSize] = {}, second[kSize] = {};
    int64_t number = 0;
    const auto elements = [&](int64_t place, int k) {
      W one[Term::kOperands];
      fetch_element(term, place, one);
      // Selects: k is not known to the compiler, and registers have no index.
      W a = 0, b = 0;
      term.add(one, of, NoRow(), 0, a, b);
      for (int j = 0; j < kSize; ++j) {
        first[j] += j == k ? a : W{0};
        second[j] += j == k ? b : W{0};
      }
      ++number;
    };
    const auto add = [&](const W(&in)[Term::kOperands][kSize]) {
      for (int k = 0; k < kSize; ++k) {
        W one[Term::kOperands];
        for (int o = 0; o < Term::kOperands; ++o) one[o] = in[o][k];
        term.add(one, of, NoRow(), 0, first[k], second[k]);
      }
    };
    const auto vectors = [&](int64_t place, int64_t step, int64_t left) {
      number += left * kSize;
      W in[Term::kOperands][kSize];
      for (; left >= kAtOnce; left -= kAtOnce, place += kAtOnce * step) {
        const Fetched<Term, kAtOnce> fetched(term, place, step);
        for (int u = 0; u < kAtOnce; ++u) {
          fetched.values(u, in);
          add(in);
        }
      }
      for (; left > 0; --left, place += step) {
        Fetched<Term, 1>(term, place, 0).values(0, in);
        add(in);
      }
    };
    for (int64_t n = 0; n < planes.count; ++n) {
      const int64_t begin = planes.place + n * planes.step;
      share_plane<kSize>(begin, begin + planes.length, planes.lane, grid.width, grid.aligned,
                         vectors, elements);
    }
    double sum = 0, other = 0;
    for (int k = 0; k < kSize; ++k) {
      sum += static_cast<double>(first[k]);
      other += static_cast<double>(second[k]);
    }
    shared[thread] = total_of(of, 0, planes.index, number, sum, other);
  }

  // The values that a block has of one channel of its own, a slot: `parts` of them in the memory
  // that is shared, `stride` apart. Sums of kFold of them take the place of the first one.

  CREMA_FUNCTOR int slots() const { return grid.rows() ? grid.width * kSize : grid.together; }
  CREMA_FUNCTOR int parts() const { return grid.rows() ? grid.lines : grid.lines * grid.width; }
  CREMA_FUNCTOR int stride() const { return grid.rows() ? grid.width : 1; }
  CREMA_FUNCTOR int first_of(int slot) const {
    if (!grid.rows()) return slot * parts();
    const int k = slot / grid.width;
    return k * ChannelGrid::kThreads + slot - k * grid.width;
  }

  CREMA_FUNCTOR void fold(int thread, SumPair* shared) const {
    const int all = slots(), parts = this->parts(), stride = this->stride();
    const int folds = (parts + kFold - 1) / kFold;
    for (int task = thread; task < all * folds; task += ChannelGrid::kThreads) {
      const int part = task / all * kFold, slot = task - task / all * all;
      SumPair* const from = shared + first_of(slot) + part * stride;
      const int count = parts - part < kFold ? parts - part : kFold;
      SumPair sum = from[0];
      for (int p = 1; p < count; ++p) sum += from[p * stride];
      from[0] = sum;
    }
  }

  CREMA_FUNCTOR void finish(const ChannelGrid::Place& at, int thread, SumPair* shared) const {
    const int all = slots(), parts = this->parts(), stride = this->stride();
    for (int slot = thread; slot < all; slot += ChannelGrid::kThreads) {
      const SumPair* const from = shared + first_of(slot);
      SumPair sum = from[0];
      for (int part = kFold; part < parts; part += kFold) sum += from[part * stride];
      int64_t c = at.group * grid.together + slot;
      if (grid.rows()) {
        const int k = slot / grid.width;
        c = (at.group * grid.width + slot - k * grid.width) * kSize + k;
      }
      if (c >= grid.channels) continue;
      const int64_t i = at.sample * grid.channels + c;
      if constexpr (!Term::kHasOrigin) {
        if (end && grid.pieces == 1) {
          end(i, sum);
          continue;
        }
      }
      sums[at.piece * grid.count() + i] = sum;
      if constexpr (Term::kHasOrigin) {
        if (at.piece == 0) {
          const bool any = grid.outer > 0 && grid.inner > 0;
          origins[i] = any ? static_cast<double>(wide_value(term.from[0][grid.origin(i)])) : 0;
        }
      }
    }
  }
};

/// A map.
template <class Map>
struct MapBlocks {
  using S = typename Map::Stored;
  using W = Wide<S>;
  static constexpr int kSize = kVector<S>, kPhases = 1, kResident = Map::kResident;

  ChannelGrid grid;
  Map map;

  int shared() const { return 0; }
  int64_t blocks() const { return grid.blocks(); }

  CREMA_FUNCTOR void run(int /*phase*/, int64_t block, int thread, SumPair* /*shared*/) const {
    const ChannelGrid::Place at = grid.place(block);
    if (grid.rows()) {
      map_rows(ThreadRows(grid, at, thread));
    } else {
      map_planes(ThreadPlanes(grid, at, thread));
    }
  }

 private:
  template <class Of>
  CREMA_FUNCTOR void map_element(int64_t place, const Of& of, int k) const {
    W one[Map::kOperands], out[Map::kOutputs];
    fetch_element(map, place, one);
    map.apply(one, of, k, out);
    for (int o = 0; o < Map::kOutputs; ++o) {
      if (map.to[o] != nullptr) map.to[o][place] = stored_value<S>(out[o]);
    }
  }
  /// Some vectors, `step` apart; of channel 0 of `of`, or of one each.
  template <int kAtOnce, class Of>
  CREMA_FUNCTOR void map_vectors(int64_t place, int64_t step, const Of& of, bool one_each) const {
    const Fetched<Map, kAtOnce> fetched(map, place, step);
    for (int u = 0; u < kAtOnce; ++u) {
      W in[Map::kOperands][kSize], out[Map::kOutputs][kSize];
      fetched.values(u, in);
      for (int k = 0; k < kSize; ++k) {
        W one[Map::kOperands], result[Map::kOutputs];
        for (int o = 0; o < Map::kOperands; ++o) one[o] = in[o][k];
        map.apply(one, of, one_each ? k : 0, result);
        for (int o = 0; o < Map::kOutputs; ++o) out[o][k] = result[o];
      }
      for (int o = 0; o < Map::kOutputs; ++o) {
        if (map.to[o] != nullptr) store_words(pack<S>(out[o]), map.to[o] + place + u * step);
      }
    }
  }

  CREMA_FUNCTOR void map_rows(const ThreadRows& rows) const {
    if (rows.count == 0) return;
    constexpr int kAtOnce = Map::kAtOnce;
    const auto of = map.template of<kSize>(rows.index, rows.some);
    int64_t place = rows.place, left = rows.count;
    if (grid.aligned) {
      for (; left >= kAtOnce; left -= kAtOnce, place += kAtOnce * rows.step) {
        map_vectors<kAtOnce>(place, rows.step, of, true);
      }
      for (; left > 0; --left, place += rows.step) map_vectors<1>(place, 0, of, true);
      return;
    }
    for (; left > 0; --left, place += rows.step) {
      for (int k = 0; k < kSize; ++k) {
        if (k < rows.some) map_element(place + k, of, k);
      }
    }
  }

  CREMA_FUNCTOR void map_planes(const ThreadPlanes& planes) const {
    if (planes.count == 0) return;
    constexpr int kAtOnce = Map::kAtOnce;
    const auto of = map.template of<1>(planes.index, 1);
    const auto elements = [&](int64_t place, int) { map_element(place, of, 0); };
    const auto vectors = [&](int64_t place, int64_t step, int64_t left) {
      for (; left >= kAtOnce; left -= kAtOnce, place += kAtOnce * step) {
        map_vectors<kAtOnce>(place, step, of, false);
      }
      for (; left > 0; --left, place += step) map_vectors<1>(place, 0, of, false);
    };
    for (int64_t n = 0; n < planes.count; ++n) {
      const int64_t begin = planes.place + n * planes.step;
      share_plane<kSize>(begin, begin + planes.length, planes.lane, grid.width, grid.aligned,
                         vectors, elements);
    }
  }
};

/// The second stage: finish(i, the sum of the pieces of channel number i).
template <class Finish>
struct FinishBlocks {
  static constexpr int kPhases = 2, kResident = 2, kWidth = 8;
  static constexpr int kLines = ChannelGrid::kThreads / kWidth;

  const SumPair* sums;
  int64_t pieces, count;
  Finish finish;

  int shared() const { return ChannelGrid::kThreads; }
  int64_t blocks() const { return (count + kWidth - 1) / kWidth; }

  CREMA_FUNCTOR void run(int phase, int64_t block, int thread, SumPair* shared) const {
    const int line = thread / kWidth, column = thread - line * kWidth;
    const int64_t i = block * kWidth + column;
    if (i >= count) return;
    SumPair sum;
    if (phase == 0) {
      for (int64_t piece = line; piece < pieces; piece += kLines) sum += sums[piece * count + i];
      shared[thread] = sum;
      return;
    }
    if (line > 0) return;
    for (int other = 0; other < kLines; ++other) sum += shared[other * kWidth + column];
    finish(i, sum);
  }
};

/// The second stage of one piece.
template <class Finish>
struct FinishEach {
  const SumPair* sums;
  Finish finish;
  CREMA_FUNCTOR void operator()(int64_t i) const { finish(i, sums[i]); }
};

}  // namespace crema::channels
