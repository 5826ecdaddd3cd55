#include "layers/ctc_loss/ctc_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "layers/ctc_loss/ctc_steps.hpp"

namespace crema {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Of rows_. Backward goes through the states from the last to the first, with the same recursion.
enum Row {
  stay,
  skip,
  reversed_stay,
  reversed_skip,
  emitted,
  reached,
  back_a,
  back_b,
  turned,
  kRows
};

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  if (larger == kNever) return kNever;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

}  // namespace

int64_t CtcAlignment::least_steps(std::span<const int32_t> label, bool merges) {
  auto steps = static_cast<int64_t>(label.size());
  for (size_t i = 1; merges && i < label.size(); ++i) steps += label[i] == label[i - 1] ? 1 : 0;
  return steps;
}

void CtcAlignment::set_label(std::span<const int32_t> label, int32_t blank, bool merges) {
  states_ = 2 * static_cast<int64_t>(label.size()) + 1;
  const auto states = static_cast<size_t>(states_);
  classes_.assign(states, blank);
  for (size_t i = 0; i < label.size(); ++i) classes_[2 * i + 1] = label[i];
  reversed_classes_.assign(classes_.rbegin(), classes_.rend());
  rows_.assign(kRows * (states + 2), kNever);
  for (const bool reversed : {false, true}) {
    const std::vector<int32_t>& classes = reversed ? reversed_classes_ : classes_;
    double* const stays = row(reversed ? reversed_stay : stay);
    double* const skips = row(reversed ? reversed_skip : skip);
    for (int64_t s = 0; s < states_; ++s) {
      const bool is_label = s % 2 == 1;
      if (!is_label || merges) stays[s] = 0;
      const auto at = static_cast<size_t>(s);
      if (is_label && s >= 3 && (!merges || classes[at] != classes[at - 2])) skips[s] = 0;
    }
  }
}

template <class T>
double CtcAlignment::align(const CtcScores<T>& scores, std::span<const int32_t> label,
                           int32_t blank, bool merges, T* shares) {
  const int64_t steps = scores.steps;
  if (steps == 0 || steps < least_steps(label, merges))
    return label.empty() && steps == 0 ? 0 : kNever;
  set_label(label, blank, merges);
  const int64_t row_size = states_ + 2;
  const auto emit = [&](const std::vector<int32_t>& classes, int64_t t) {
    double* const to = row(emitted);
    for (int64_t s = 0; s < states_; ++s)
      to[s] = scores.log_probability(t, classes[static_cast<size_t>(s)]);
  };
  // The first step reaches the first two states.
  const auto begin = [&](double* reached_row, double* after) {
    for (int64_t s = 0; s < states_; ++s) {
      reached_row[s] = s < 2 ? 0 : kNever;
      after[s] = reached_row[s] + row(emitted)[s];
    }
  };

  // Without shares, two rows are enough.
  forward_.assign(static_cast<size_t>((shares != nullptr ? steps : 2) * row_size), kNever);
  const auto forward = [&](int64_t t) {
    return forward_.data() + (shares != nullptr ? t : t % 2) * row_size + 2;
  };
  for (int64_t t = 0; t < steps; ++t) {
    emit(classes_, t);
    if (t == 0) {
      begin(row(reached), forward(0));
    } else {
      advance(
          {states_, forward(t - 1), row(stay), row(skip), row(emitted), row(reached), forward(t)});
    }
  }
  const double* const last = forward(steps - 1);
  const double total = states_ > 1 ? log_add(last[states_ - 1], last[states_ - 2]) : last[0];
  if (shares == nullptr || total == kNever) return total;

  double *after = row(back_a), *before = row(back_b);
  for (int64_t t = steps - 1; t >= 0; --t) {
    emit(reversed_classes_, t);
    if (t == steps - 1) {
      begin(row(reached), after);
    } else {
      advance({states_, before, row(reversed_stay), row(reversed_skip), row(emitted), row(reached),
               after});
    }
    std::reverse_copy(row(reached), row(reached) + states_, row(turned));
    path_shares(states_, forward(t), row(turned), total, row(reached));
    T* const of_step = shares + t * scores.stride;
    for (int64_t s = 0; s < states_; ++s)
      of_step[classes_[static_cast<size_t>(s)]] -= static_cast<T>(row(reached)[s]);
    std::swap(after, before);
  }
  return total;
}

template double CtcAlignment::align(const CtcScores<float>&, std::span<const int32_t>, int32_t,
                                    bool, float*);
template double CtcAlignment::align(const CtcScores<double>&, std::span<const int32_t>, int32_t,
                                    bool, double*);

}  // namespace crema
