#include "layers/crf_loss/chain.hpp"

#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "crema/error.hpp"
#include "layers/crf_loss/chain_kernels.hpp"

namespace crema {
namespace {

double log_sum_exp(const double* values, int64_t count) {
  const double largest = *std::max_element(values, values + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(values[i] - largest);
  return largest + std::log(sum);
}

/// The transitions out of one class, whose sum powers cannot hold: adds their probabilities to
/// `to`; `until` is log of the share of paths up to the class. Returns log of their sum.
double far_transitions(const double* transitions, int64_t classes, const double* following,
                       double until, double* to) {
  double largest = transitions[0] + following[0], sum = 0;
  for (int64_t j = 1; j < classes; ++j) largest = std::max(largest, transitions[j] + following[j]);
  for (int64_t j = 0; j < classes; ++j) sum += std::exp(transitions[j] + following[j] - largest);
  const double after = largest + std::log(sum), probability = std::exp(until + after);
  for (int64_t j = 0; j < classes; ++j)
    to[j] += probability * std::exp(transitions[j] + following[j] - after);
  return after;
}

}  // namespace

void find_sequences(int64_t steps, int64_t batch, const Tensor* cont, const std::vector<bool>* used,
                    std::vector<ChainSequence>& sequences) {
  sequences.clear();
  for (int64_t n = 0; n < batch; ++n) {
    bool inside = false;
    for (int64_t t = 0; t < steps; ++t) {
      const double goes_on = cont != nullptr ? cont->at(t * batch + n) : 1;
      if (goes_on != 0 && goes_on != 1)
        throw Error("the indicator ", goes_on, " of step ", t, ", sequence ", n,
                    " is neither 0 nor 1; give 0 where a sequence begins, and 1 elsewhere");
      if (used != nullptr && !(*used)[static_cast<size_t>(t * batch + n)]) {
        inside = false;
        continue;
      }
      if (!inside || goes_on == 0) sequences.push_back({n, t, 0});
      ++sequences.back().steps;
      inside = true;
    }
  }
}

Shape chain_shape(const Blob& scores) {
  const Shape& shape = scores.shape();
  if (shape.rank() < 3 || shape[2] == 0 || shape.count(3) != 1)
    throw Error("the scores '", scores.name, "' (", shape.str(),
                ") have to be (steps, sequences, classes)");
  return Shape{shape[0], shape[1], shape[2]};
}

void check_like_scores(const Blob& blob, const Blob& scores, const char* what) {
  const Shape &shape = blob.shape(), &of_scores = scores.shape();
  if (shape.rank() < 2 || shape[0] != of_scores[0] || shape[1] != of_scores[1] ||
      shape.count(2) != 1)
    throw Error("the ", what, " '", blob.name, "' (", shape.str(), ") have to be (", of_scores[0],
                ", ", of_scores[1], "), one for each step and sequence of the scores '",
                scores.name, "' (", of_scores.str(), ")");
}

void ChainWeights::set(const Tensor& transitions, const Tensor* first, const Tensor* last) {
  classes_ = transitions.shape()[0];
  const auto read = [&](const Tensor* from, int64_t count, std::vector<double>& to) {
    to.assign(static_cast<size_t>(count), 0);
    if (from == nullptr) return;
    dispatch_float(from->dtype(), [&]<class T>(T) {
      const T* values = from->read<T>();
      std::copy(values, values + count, to.begin());
    });
    const auto bad = std::ranges::find_if(to, [](double v) { return !std::isfinite(v); });
    if (bad != to.end()) throw Error("a parameter is ", *bad, "; the training diverged");
  };
  read(&transitions, classes_ * classes_, transitions_);
  read(first, classes_, first_);
  read(last, classes_, last_);
  const auto size = static_cast<size_t>(classes_);
  largest_into_.assign(size, -std::numeric_limits<double>::infinity());
  largest_from_ = largest_into_;
  powers_into_.resize(size * size);
  powers_from_.resize(size * size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      const double value = transitions_[i * size + j];
      largest_from_[i] = std::max(largest_from_[i], value);
      largest_into_[j] = std::max(largest_into_[j], value);
    }
  }
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      const double value = transitions_[i * size + j];
      powers_into_[i * size + j] = std::exp(value - largest_into_[j]);
      powers_from_[i * size + j] = std::exp(value - largest_from_[i]);
    }
  }
}

size_t ChainWeights::bytes() const {
  return (transitions_.capacity() + first_.capacity() + last_.capacity() + powers_into_.capacity() +
          largest_into_.capacity() + powers_from_.capacity() + largest_from_.capacity()) *
         sizeof(double);
}

void ChainGradients::clear(int64_t classes) {
  const auto size = static_cast<size_t>(classes);
  for (std::vector<double>* sums : {&first, &last}) sums->assign(size, 0);
  for (std::vector<double>* sums : {&transitions, &scaled}) sums->assign(size * size, 0);
}

void ChainGradients::finish(const ChainWeights& weights) {
  for (size_t i = 0; i < transitions.size(); ++i)
    transitions[i] += scaled[i] * weights.powers_from()[i];
}

size_t ChainGradients::bytes() const {
  return (transitions.capacity() + first.capacity() + last.capacity() + scaled.capacity()) *
         sizeof(double);
}

template <class T>
double Chain::forward(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps) {
  const int64_t C = weights.classes();
  const auto size = static_cast<size_t>(C);
  forward_.resize(static_cast<size_t>(steps) * size);
  for (std::vector<double>* row : {&powers_, &sums_, &row_, &following_}) row->resize(size);
  double *const sums = sums_.data(), *const row = row_.data();
  for (int64_t j = 0; j < C; ++j)
    forward_[static_cast<size_t>(j)] = weights.first()[j] + static_cast<double>(x[j]);
  for (int64_t t = 1; t < steps; ++t) {
    const double* const before = forward_.data() + (t - 1) * C;
    double* const after = forward_.data() + t * C;
    const double largest = *std::max_element(before, before + C);
    exp_of_sums(C, before, nullptr, largest, powers_.data());
    times_matrix(C, powers_.data(), weights.powers_into(), sums);
    log_and_add(C, sums, weights.largest_into(), largest, after);
    for (int64_t j = 0; j < C; ++j) {
      if (sums[j] < kLeastSum) {
        for (int64_t i = 0; i < C; ++i) row[i] = before[i] + weights.transitions()[i * C + j];
        after[j] = log_sum_exp(row, C);
      }
      after[j] += static_cast<double>(x[t * stride + j]);
    }
  }
  const double* const until = forward_.data() + (steps - 1) * C;
  for (int64_t j = 0; j < C; ++j) row[j] = until[j] + weights.last()[j];
  return log_sum_exp(row, C);
}

// The probability of class i at step t and class j at the next is that of i times
// exp(A(i, j) + following(j)) / the sum of these over j.
template <class T>
void Chain::backward(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps,
                     double total, T* shares, ChainGradients& gradients) {
  const int64_t C = weights.classes();
  double *const powers = powers_.data(), *const sums = sums_.data();
  double* const following = following_.data();
  double* const after = row_.data();  // log of the sum of paths from a class on, behind its step
  std::copy(weights.last(), weights.last() + C, after);
  for (int64_t t = steps - 1; t >= 0; --t) {
    const double* const until = forward_.data() + t * C;
    if (t < steps - 1) {
      for (int64_t j = 0; j < C; ++j)
        following[j] = after[j] + static_cast<double>(x[(t + 1) * stride + j]);
      const double largest = *std::max_element(following, following + C);
      exp_of_sums(C, following, nullptr, largest, powers);
      matrix_times(C, weights.powers_from(), powers, sums);
      log_and_add(C, sums, weights.largest_from(), largest, after);
      for (int64_t i = 0; i < C; ++i) {
        if (sums[i] >= kLeastSum) {
          const double factor = std::exp(until[i] + after[i] - total) / sums[i];
          add_scaled(C, factor, powers, gradients.scaled.data() + i * C);
          continue;
        }
        after[i] = far_transitions(weights.transitions() + i * C, C, following, until[i] - total,
                                   gradients.transitions.data() + i * C);
      }
    }
    exp_of_sums(C, until, after, total, sums);
    T* const share = shares + t * stride;
    for (int64_t j = 0; j < C; ++j) share[j] = static_cast<T>(sums[j]);
    if (t == 0) add_scaled(C, 1, sums, gradients.first.data());
    if (t == steps - 1) add_scaled(C, 1, sums, gradients.last.data());
  }
}

template <class T>
double Chain::loss(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps,
                   const int32_t* labels, int64_t label_stride, T* shares,
                   ChainGradients* gradients) {
  const int64_t C = weights.classes();
  const double total = forward(weights, x, stride, steps);
  const auto label = [&](int64_t t) { return static_cast<int64_t>(labels[t * label_stride]); };
  double score = weights.first()[label(0)] + weights.last()[label(steps - 1)];
  for (int64_t t = 0; t < steps; ++t) {
    score += static_cast<double>(x[t * stride + label(t)]);
    if (t > 0) score += weights.transitions()[label(t - 1) * C + label(t)];
  }
  if (shares == nullptr) return total - score;
  backward(weights, x, stride, steps, total, shares, *gradients);
  gradients->first[static_cast<size_t>(label(0))] -= 1;
  gradients->last[static_cast<size_t>(label(steps - 1))] -= 1;
  for (int64_t t = 0; t < steps; ++t) {
    shares[t * stride + label(t)] -= T(1);
    if (t > 0) gradients->transitions[static_cast<size_t>(label(t - 1) * C + label(t))] -= 1;
  }
  return total - score;
}

template <class T>
void Chain::best_path(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps,
                      T* path, int64_t path_stride) {
  const int64_t C = weights.classes();
  for (std::vector<double>* row : {&powers_, &sums_}) row->resize(static_cast<size_t>(C));
  forward_.resize(static_cast<size_t>(steps * C));
  double *before = powers_.data(), *after = sums_.data();
  for (int64_t j = 0; j < C; ++j) before[j] = weights.first()[j] + static_cast<double>(x[j]);
  for (int64_t t = 1; t < steps; ++t) {
    best_of_columns(C, before, weights.transitions(), after, forward_.data() + t * C);
    for (int64_t j = 0; j < C; ++j) after[j] += static_cast<double>(x[t * stride + j]);
    std::swap(before, after);
  }
  for (int64_t j = 0; j < C; ++j) before[j] += weights.last()[j];
  int64_t best = std::max_element(before, before + C) - before;
  for (int64_t t = steps - 1; t >= 0; --t) {
    path[t * path_stride] = static_cast<T>(best);
    if (t > 0) best = static_cast<int64_t>(forward_[static_cast<size_t>(t * C + best)]);
  }
}

size_t Chain::bytes() const {
  return (forward_.capacity() + powers_.capacity() + sums_.capacity() + row_.capacity() +
          following_.capacity()) *
         sizeof(double);
}

template double Chain::loss(const ChainWeights&, const float*, int64_t, int64_t, const int32_t*,
                            int64_t, float*, ChainGradients*);
template double Chain::loss(const ChainWeights&, const double*, int64_t, int64_t, const int32_t*,
                            int64_t, double*, ChainGradients*);
template void Chain::best_path(const ChainWeights&, const float*, int64_t, int64_t, float*,
                               int64_t);
template void Chain::best_path(const ChainWeights&, const double*, int64_t, int64_t, double*,
                               int64_t);

}  // namespace crema
