// One step of the recursions of CTC, on vectors, in logarithms.
//
// States of a label sequence of L classes: 2L + 1, a blank before, between and behind the classes.
// A path stays in its state, goes on to the next one, or skips a blank. Logarithms of probabilities
// are double; -infinity is a probability of 0.
#pragma once

#include <cstdint>

namespace crema {

struct CtcStep {
  int64_t states;
  const double* before;   // [-2, states): of the step before; -infinity at -2 and -1
  const double* stay;     // (states): 0 where a path may stay, else -infinity
  const double* skip;     // (states): 0 where it may come from two states before, else -infinity
  const double* emitted;  // (states): of the class of each state, at this step
  double* reached;        // (states): of the paths into each state
  double* after;          // (states): the same with what this step emits
};
void advance(const CtcStep& step);

/// shares[s] = exp(a[s] + b[s] - total)
void path_shares(int64_t states, const double* a, const double* b, double total, double* shares);

}  // namespace crema
