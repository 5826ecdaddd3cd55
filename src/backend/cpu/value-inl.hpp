// Value<D>: a vector with the operators of a number, so that a functor written for numbers
// (kit/pointwise.hpp) also runs on vectors. Compiled once for each set of vector instructions,
// see backend/cpu/highway.hpp. What functors may call is what backend/functor.hpp has for numbers.
#include <type_traits>

#include "backend/cpu/highway.hpp"

#if defined(CREMA_BACKEND_CPU_VALUE) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_BACKEND_CPU_VALUE
#undef CREMA_BACKEND_CPU_VALUE
#else
#define CREMA_BACKEND_CPU_VALUE
#endif

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

template <class D>
struct Value {
  using T = hn::TFromD<D>;
  using Mask = hn::Mask<D>;
  hn::Vec<D> raw;

  HWY_INLINE explicit Value(hn::Vec<D> lanes) : raw(lanes) {}
  template <class S>
  requires std::is_arithmetic_v<S> HWY_INLINE explicit Value(S number)
      : raw(hn::Set(D(), static_cast<T>(number))) {}

  friend HWY_INLINE Value operator+(Value a, Value b) { return Value(hn::Add(a.raw, b.raw)); }
  friend HWY_INLINE Value operator-(Value a, Value b) { return Value(hn::Sub(a.raw, b.raw)); }
  friend HWY_INLINE Value operator*(Value a, Value b) { return Value(hn::Mul(a.raw, b.raw)); }
  friend HWY_INLINE Value operator/(Value a, Value b) { return Value(hn::Div(a.raw, b.raw)); }
  friend HWY_INLINE Value operator-(Value a) { return Value(hn::Neg(a.raw)); }
  friend HWY_INLINE Mask operator<(Value a, Value b) { return hn::Lt(a.raw, b.raw); }
  friend HWY_INLINE Mask operator<=(Value a, Value b) { return hn::Le(a.raw, b.raw); }
  friend HWY_INLINE Mask operator>(Value a, Value b) { return hn::Gt(a.raw, b.raw); }
  friend HWY_INLINE Mask operator>=(Value a, Value b) { return hn::Ge(a.raw, b.raw); }

  friend HWY_INLINE Value select(Mask mask, Value yes, Value no) {
    return Value(hn::IfThenElse(mask, yes.raw, no.raw));
  }
  // Highway's functions have a range each, and lose NaN.
  friend HWY_INLINE Value exp(Value x) {
    const Value limit(sizeof(T) == 4 ? 88.72283 : 709.7827);  // beyond it, infinity
    const Value y(hn::Exp(D(), hn::Min(x.raw, limit.raw)));
    return keep_nan(x, select(x > limit, Value(hn::Inf(D())), y));
  }
  friend HWY_INLINE Value tanh(Value x) { return keep_nan(x, Value(hn::Tanh(D(), x.raw))); }

 private:
  static HWY_INLINE Value keep_nan(Value x, Value y) { return select(hn::IsNaN(x.raw), x, y); }
};

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
