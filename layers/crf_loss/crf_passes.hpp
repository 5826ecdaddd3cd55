// CRFLoss and CRFDecoder on a device: a block for each sequence and direction, whose threads share
// the classes of a step. For sources that include layer_support/passes.hpp. The host has Chain.
#pragma once

#include <limits>

#include "layer_support/blocks.hpp"
#include "layer_support/loss_seed.hpp"
#include "layers/crf_loss/chain.hpp"

namespace crema {

/// The sequences of a batch, in the memory of the device. A position is step * N + column.
struct ChainBatch {
  int64_t positions, batch, classes;  // T * N, N, C of the scores
  int64_t count;                      // of sequences
  const int32_t* sequence_of;         // (positions): -1 outside of sequences
  const int32_t *starts, *lengths;    // (count): position of the first step; steps

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNever = -kInfinity;
  static CREMA_FUNCTOR bool is_finite(double value) { return abs(value) < kInfinity; }

  /// Whether a score of a sequence is no number.
  template <class T, class Lanes>
  CREMA_FUNCTOR bool has_bad(int64_t sequence, const T* x, const Lanes& lanes) const {
    double bad = 0;
    for (int64_t i = lanes.first; i < lengths[sequence] * classes; i += lanes.count) {
      const int64_t position = starts[sequence] + i / classes * batch;
      if (!is_finite(static_cast<double>(x[position * classes + i % classes]))) bad = 1;
    }
    return lanes.max(bad) > 0;
  }
};

/// The parameters in double, as ChainWeights has them. NaN where they are no numbers.
struct ChainScales {
  int64_t classes;
  double* values;

  static int64_t count(int64_t classes) { return 2 * classes * classes + 4 * classes; }
  CREMA_FUNCTOR double* into() const { return values; }
  /// (C, C), transposed: [j, i] is of the transition from i to j.
  CREMA_FUNCTOR double* from() const { return values + classes * classes; }
  CREMA_FUNCTOR double* largest_into() const { return values + 2 * classes * classes; }
  CREMA_FUNCTOR double* largest_from() const { return largest_into() + classes; }
  CREMA_FUNCTOR double* first() const { return largest_into() + 2 * classes; }
  CREMA_FUNCTOR double* last() const { return largest_into() + 3 * classes; }
};

/// For each class: the largest transitions and the ends of sequences.
template <class T>
struct FindLargest {
  ChainScales to;
  const T *transitions, *first, *last;  // the last two may be null
  static CREMA_FUNCTOR double number(double value) {
    return ChainBatch::is_finite(value) ? value : std::numeric_limits<double>::quiet_NaN();
  }
  CREMA_FUNCTOR void operator()(int64_t c) const {
    double into = ChainBatch::kNever, from = into;
    bool bad = false;
    for (int64_t k = 0; k < to.classes; ++k) {
      const auto a = static_cast<double>(transitions[k * to.classes + c]);
      const auto b = static_cast<double>(transitions[c * to.classes + k]);
      bad = bad || !ChainBatch::is_finite(a) || !ChainBatch::is_finite(b);
      into = into < a ? a : into;
      from = from < b ? b : from;
    }
    to.largest_into()[c] = bad ? std::numeric_limits<double>::quiet_NaN() : into;
    to.largest_from()[c] = bad ? std::numeric_limits<double>::quiet_NaN() : from;
    to.first()[c] = first ? number(static_cast<double>(first[c])) : 0;
    to.last()[c] = last ? number(static_cast<double>(last[c])) : 0;
  }
};

/// For each transition, after FindLargest: its powers.
template <class T>
struct FindPowers {
  ChainScales to;
  const T* transitions;
  CREMA_FUNCTOR void operator()(int64_t k) const {
    const int64_t i = k / to.classes, j = k % to.classes;
    const auto value = static_cast<double>(transitions[k]);
    to.into()[k] = exp(value - to.largest_into()[j]);
    to.from()[j * to.classes + i] = exp(value - to.largest_from()[i]);
  }
};

/// Item q < count: `until`, the log of the sum of the paths of sequence q up to a class of a
/// position, of all its paths, and the loss; NaN if a score or parameter is no number. Item
/// count + q: `after`, of the paths from there on, without the score of the position.
/// lanes.shared: (C).
template <class T>
struct ChainSums {
  ChainBatch of;
  ChainScales scales;
  const T *x, *transitions;
  const int32_t* labels;    // (positions)
  double *until, *after;    // (positions, C)
  double *totals, *losses;  // (count)

  /// Of the paths to a class of a step, in the order of the direction, before its own score.
  CREMA_FUNCTOR double reached(int64_t position, int64_t c, bool reversed) const {
    const int64_t at = position * of.classes + c;
    return reversed ? after[at] + static_cast<double>(x[at]) : until[at];
  }
  CREMA_FUNCTOR double far_sum(int64_t position, int64_t c, bool reversed) const {
    const int64_t step = reversed ? 1 : of.classes, first = reversed ? c * of.classes : c;
    double largest = ChainBatch::kNever, sum = 0;
    for (int64_t k = 0; k < of.classes; ++k) {
      const double term = reached(position, k, reversed) + transitions[first + k * step];
      largest = largest < term ? term : largest;
    }
    for (int64_t k = 0; k < of.classes; ++k)
      sum += exp(reached(position, k, reversed) + transitions[first + k * step] - largest);
    return largest + log(sum);
  }

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const bool reversed = item >= of.count;
    const int64_t q = item % of.count, C = of.classes, steps = of.lengths[q];
    const int64_t end = of.starts[q] + (steps - 1) * of.batch;
    const double* const powers = reversed ? scales.from() : scales.into();
    const double* const largest = reversed ? scales.largest_from() : scales.largest_into();
    const int64_t direction = reversed ? -of.batch : of.batch;
    int64_t position = reversed ? end : of.starts[q];
    for (int64_t c = lanes.first; c < C; c += lanes.count) {
      const int64_t at = position * C + c;
      if (reversed) {
        after[at] = scales.last()[c];
      } else {
        until[at] = scales.first()[c] + static_cast<double>(x[at]);
      }
    }
    lanes.wait();
    for (int64_t step = 1; step < steps; ++step, position += direction) {
      double most = ChainBatch::kNever;
      for (int64_t c = lanes.first; c < C; c += lanes.count) {
        const double value = reached(position, c, reversed);
        most = most < value ? value : most;
      }
      most = lanes.max(most);
      for (int64_t c = lanes.first; c < C; c += lanes.count)
        lanes.shared[c] = exp(reached(position, c, reversed) - most);
      lanes.wait();
      for (int64_t c = lanes.first; c < C; c += lanes.count) {
        double sum = 0;
        for (int64_t k = 0; k < C; ++k) sum += lanes.shared[k] * powers[k * C + c];
        const double value =
            sum < kLeastSum ? far_sum(position, c, reversed) : most + largest[c] + log(sum);
        const int64_t at = (position + direction) * C + c;
        if (reversed) {
          after[at] = value;
        } else {
          until[at] = value + static_cast<double>(x[at]);
        }
      }
      lanes.wait();
    }
    if (!reversed) finish(q, end, lanes);
  }

 private:
  template <class Lanes>
  CREMA_FUNCTOR void finish(int64_t q, int64_t end, const Lanes& lanes) const {
    const int64_t C = of.classes;
    double most = ChainBatch::kNever, sum = 0, score = 0, bad = 0;
    for (int64_t c = lanes.first; c < C; c += lanes.count) {
      const double value = until[end * C + c] + scales.last()[c];
      most = most < value ? value : most;
      if (!ChainBatch::is_finite(scales.largest_into()[c] + scales.first()[c] + scales.last()[c]))
        bad = 1;
    }
    most = lanes.max(most);
    for (int64_t c = lanes.first; c < C; c += lanes.count)
      sum += exp(until[end * C + c] + scales.last()[c] - most);
    sum = lanes.sum(sum);
    for (int64_t t = lanes.first; t < of.lengths[q]; t += lanes.count) {
      const int64_t position = of.starts[q] + t * of.batch;
      const int64_t label = labels[position];
      score += static_cast<double>(x[position * C + label]);
      score += t > 0 ? static_cast<double>(transitions[labels[position - of.batch] * C + label])
                     : scales.first()[label];
    }
    score = lanes.sum(score) + scales.last()[labels[end]];
    bad = lanes.max(bad);
    const bool bad_scores = of.has_bad(q, x, lanes);
    if (lanes.first != 0) return;
    const double total = most + log(sum);
    totals[q] = total;
    losses[q] = bad > 0 || bad_scores ? std::numeric_limits<double>::quiet_NaN() : total - score;
  }
};

/// The probability of a class at a position, and of two classes there and at the next step, less 1
/// where they are the labels.
template <class T>
struct ChainShares {
  ChainBatch of;
  ChainScales scales;
  const T *x, *transitions;
  const int32_t* labels;
  const double *until, *after, *totals;
  T* gradient;  // (positions, C)

  CREMA_FUNCTOR double share(int64_t position, int64_t c) const {
    const int64_t at = position * of.classes + c;
    return exp(until[at] + after[at] - totals[of.sequence_of[position]]) -
           (labels[position] == c ? 1 : 0);
  }
  /// The gradient of a score.
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t position = i / of.classes;
    const bool used = of.sequence_of[position] >= 0;
    gradient[i] = used ? static_cast<T>(share(position, i % of.classes)) : T(0);
  }
};

/// Value k % C^2 of part k / C^2 of the positions: the gradient of a transition by them, summed up
/// in their order. Neighbouring threads have neighbouring classes.
template <class T>
struct PairShares {
  ChainShares<T> of;
  int64_t parts;
  double* to;  // (parts, C, C)

  CREMA_FUNCTOR void operator()(int64_t k) const {
    const ChainBatch& batch = of.of;
    const int64_t C = batch.classes, part = k / (C * C), pair = k % (C * C);
    const int64_t i = pair / C, j = pair % C;
    const auto transition = static_cast<double>(of.transitions[pair]);
    const int64_t end = batch.positions * (part + 1) / parts;
    double sum = 0;
    for (int64_t here = batch.positions * part / parts; here < end; ++here) {
      const int64_t next = here + batch.batch;
      const int32_t q = batch.sequence_of[here];
      if (q < 0 || next >= batch.positions || batch.sequence_of[next] != q) continue;
      const double score = of.until[here * C + i] + transition +
                           static_cast<double>(of.x[next * C + j]) + of.after[next * C + j];
      sum += exp(score - of.totals[q]) - (of.labels[here] == i && of.labels[next] == j ? 1 : 0);
    }
    to[k] = sum;
  }
};

/// to[i] = the sum of parts[p * count + i], in order of p.
struct AddParts {
  int64_t parts, count;
  const double* from;
  double* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += from[part * count + i];
    to[i] = sum;
  }
};

/// Term of channel_sums() over (sequences, C): the gradients of the first and of the last class.
template <class T>
struct EndShares {
  ChainShares<T> of;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const int64_t q = place / of.of.classes, start = of.of.starts[q];
    return {of.share(start, c), of.share(start + (of.of.lengths[q] - 1) * of.of.batch, c)};
  }
};

/// Its end.
struct StoreSums {
  double *first, *second;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    first[c] = sums.first;
    second[c] = sums.second;
  }
};

/// The gradient of a parameter grows by scale * the sums.
template <class T>
struct AddScaled {
  SeedFactor<T, double> scale;
  const double* sums;
  T* gradient;
  CREMA_FUNCTOR void operator()(int64_t i) const { gradient[i] += static_cast<T>(scale * sums[i]); }
};

/// Item q: the best path of a sequence; best_scores[q] is NaN if a score or parameter is no number.
/// lanes.shared: (2, C).
template <class T>
struct BestPaths {
  ChainBatch of;
  ChainScales scales;  // FindLargest is enough
  const T *x, *transitions;
  int32_t* from;        // (positions, C): the class before
  double* best_scores;  // (count)
  T* path;              // (positions)

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t q, const Lanes& lanes) const {
    const int64_t C = of.classes, steps = of.lengths[q];
    int64_t before = 0, after = C;  // in lanes.shared: the sums of the step before, and of this one
    int64_t position = of.starts[q];
    double bad = 0;
    for (int64_t c = lanes.first; c < C; c += lanes.count) {
      lanes.shared[before + c] = scales.first()[c] + static_cast<double>(x[position * C + c]);
      if (!ChainBatch::is_finite(scales.largest_into()[c] + scales.first()[c] + scales.last()[c]))
        bad = 1;
    }
    bad = lanes.max(bad);
    const bool bad_scores = of.has_bad(q, x, lanes);
    if (lanes.first == 0)
      best_scores[q] = bad > 0 || bad_scores ? std::numeric_limits<double>::quiet_NaN() : 0;
    if (bad > 0 || bad_scores) return;
    lanes.wait();
    for (int64_t step = 1; step < steps; ++step) {
      position += of.batch;
      for (int64_t c = lanes.first; c < C; c += lanes.count) {
        double most = lanes.shared[before] + static_cast<double>(transitions[c]);
        int32_t best = 0;
        for (int64_t k = 1; k < C; ++k) {
          const double score =
              lanes.shared[before + k] + static_cast<double>(transitions[k * C + c]);
          if (score > most) {
            most = score;
            best = static_cast<int32_t>(k);
          }
        }
        from[position * C + c] = best;
        lanes.shared[after + c] = most + static_cast<double>(x[position * C + c]);
      }
      lanes.wait();
      const int64_t done = before;
      before = after;
      after = done;
    }
    if (lanes.first != 0) return;
    int64_t best = 0;
    for (int64_t c = 1; c < C; ++c) {
      if (lanes.shared[before + c] + scales.last()[c] >
          lanes.shared[before + best] + scales.last()[best])
        best = c;
    }
    for (int64_t step = steps; step-- > 0; position -= of.batch) {
      path[position] = static_cast<T>(best);
      if (step > 0) best = from[position * C + best];
    }
  }
};

}  // namespace crema
