// Highway's functions for kernels, with the values that they leave out. Included once for each
// target, behind backend/cpu/highway.hpp.
#if defined(CREMA_BACKEND_CPU_MATH_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_BACKEND_CPU_MATH_LANES_INL_HPP
#undef CREMA_BACKEND_CPU_MATH_LANES_INL_HPP
#else
#define CREMA_BACKEND_CPU_MATH_LANES_INL_HPP
#endif

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

/// exp(x) for x <= 88; NaN for NaN, where Highway gives 0.
template <class D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, x), x);
}

/// log(x) for x > 0 and finite; NaN for NaN, where Highway gives a number.
template <class D>
HWY_INLINE hn::Vec<D> log_of(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Log(d, x), x);
}

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
