#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/ctc_loss/ctc_steps.cpp"
#include "layers/ctc_loss/ctc_steps.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Doubles = hn::ScalableTag<double>;
using V = crema::HWY_NAMESPACE::Value<Doubles>;

HWY_INLINE V larger(V a, V b) { return select(a < b, b, a); }

HWY_FLATTEN void advance_states(const CtcStep& step) {
  const Doubles d;
  each_vector(d, step.states, [&](int64_t s, auto lanes) CREMA_LANES_LAMBDA {
    const auto from = [&](const double* values)
                          CREMA_LANES_LAMBDA { return V(load(d, lanes, values + s)); };
    const V stays = from(step.before) + from(step.stay), moves = from(step.before - 1);
    const V skips = from(step.before - 2) + from(step.skip);
    const V none = -V(hn::Inf(d)), largest = larger(stays, larger(moves, skips));
    // The sum of logarithms, from the largest one; -infinity if all are.
    const V base = select(largest == none, V(0), largest);
    const V sum = exp(stays - base) + exp(moves - base) + exp(skips - base);
    const V reached = base + log(sum);
    store(d, lanes, reached.raw, step.reached + s);
    store(d, lanes, (reached + from(step.emitted)).raw, step.after + s);
  });
}

HWY_FLATTEN void shares_of_states(int64_t states, const double* a, const double* b, double total,
                                  double* shares) {
  const Doubles d;
  each_vector(d, states, [&](int64_t s, auto lanes) CREMA_LANES_LAMBDA {
    const V sum = V(load(d, lanes, a + s)) + V(load(d, lanes, b + s)) - V(total);
    store(d, lanes, exp(sum).raw, shares + s);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(advance_states);
HWY_EXPORT(shares_of_states);

}  // namespace

void advance(const CtcStep& step) { HWY_DYNAMIC_DISPATCH(advance_states)(step); }
void path_shares(int64_t states, const double* a, const double* b, double total, double* shares) {
  HWY_DYNAMIC_DISPATCH(shares_of_states)(states, a, b, total, shares);
}

}  // namespace crema
#endif
