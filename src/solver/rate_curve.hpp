// What the losses of a range test say of the learning rates (Solver::try_rates()).
#pragma once

#include "crema/solver.hpp"

namespace crema {

/// Error for a number out of its range.
void check(const RateTrial& trial);

/// The rate of step `number` of the trial, from 0: they form a geometric series.
double rate_of(const RateTrial& trial, int number);

/// Adds a step. Returns false where the trial ends: the smoothed loss is trial.stop times the least
/// one, or more than that much above it where that is not positive, or the loss is not finite, of
/// which no step is made.
///
/// The smoothed loss of step k is m_k / (1 - s^(k + 1)) with m_k = s * m_(k - 1) + (1 - s) * loss
/// and m_-1 = 0, where s is the smoothing.
bool add_step(const RateTrial& trial, double loss, RateCurve& curve);

/// Sets `steepest` and `tenth_of_least`. The slope at a step is the difference of the smoothed
/// losses on both sides of it. The first 1 / (1 - smoothing) steps do not count, as they are hardly
/// smoothed, nor do steps behind the least loss. None where that is the first one that counts: the
/// loss has not fallen.
void suggest(const RateTrial& trial, RateCurve& curve);

}  // namespace crema
