// Value<D>: a vector with the operators of a number, so that a functor written for numbers
// (layer_support/pointwise.hpp) also runs on vectors. Compiled once for each set of vector
// instructions, see backend/cpu/highway.hpp. What functors may call is what core/functor.hpp has
// for numbers.
#include <type_traits>

#include "backend/cpu/highway.hpp"

#if defined(CREMA_BACKEND_CPU_VALUE) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_BACKEND_CPU_VALUE
#undef CREMA_BACKEND_CPU_VALUE
#else
#define CREMA_BACKEND_CPU_VALUE
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

template <class D>
struct Value {
  using T = hn::TFromD<D>;
  hn::Vec<D> raw;

  HWY_INLINE explicit Value(hn::Vec<D> lanes) : raw(lanes) {}
  template <class S>
  requires std::is_arithmetic_v<S> HWY_INLINE explicit Value(S number)
      : raw(hn::Set(D(), static_cast<T>(number))) {}
};

// No friends of the class: GCC 12 compiles a friend of a class template for the baseline
// processor, wherever the template stands. Unless it is inlined, its callers then pass vectors
// in another way than it takes them.

template <class D>
HWY_INLINE Value<D> operator+(Value<D> a, Value<D> b) {
  return Value<D>(hn::Add(a.raw, b.raw));
}
template <class D>
HWY_INLINE Value<D> operator-(Value<D> a, Value<D> b) {
  return Value<D>(hn::Sub(a.raw, b.raw));
}
template <class D>
HWY_INLINE Value<D> operator*(Value<D> a, Value<D> b) {
  return Value<D>(hn::Mul(a.raw, b.raw));
}
template <class D>
HWY_INLINE Value<D> operator/(Value<D> a, Value<D> b) {
  return Value<D>(hn::Div(a.raw, b.raw));
}
template <class D>
HWY_INLINE Value<D> operator-(Value<D> a) {
  return Value<D>(hn::Neg(a.raw));
}
template <class D>
HWY_INLINE hn::Mask<D> operator<(Value<D> a, Value<D> b) {
  return hn::Lt(a.raw, b.raw);
}
template <class D>
HWY_INLINE hn::Mask<D> operator<=(Value<D> a, Value<D> b) {
  return hn::Le(a.raw, b.raw);
}
template <class D>
HWY_INLINE hn::Mask<D> operator>(Value<D> a, Value<D> b) {
  return hn::Gt(a.raw, b.raw);
}
template <class D>
HWY_INLINE hn::Mask<D> operator>=(Value<D> a, Value<D> b) {
  return hn::Ge(a.raw, b.raw);
}
template <class D>
HWY_INLINE hn::Mask<D> operator==(Value<D> a, Value<D> b) {
  return hn::Eq(a.raw, b.raw);
}

template <class D>
HWY_INLINE Value<D> select(hn::Mask<D> mask, Value<D> yes, Value<D> no) {
  return Value<D>(hn::IfThenElse(mask, yes.raw, no.raw));
}

template <class D>
HWY_INLINE Value<D> abs(Value<D> x) {
  return Value<D>(hn::Abs(x.raw));
}
template <class D>
HWY_INLINE Value<D> sqrt(Value<D> x) {
  return Value<D>(hn::Sqrt(x.raw));
}

// Highway's functions have a range each, and lose NaN.
template <class D>
HWY_INLINE Value<D> keep_nan(Value<D> x, Value<D> y) {
  return select(hn::IsNaN(x.raw), x, y);
}
/// The largest argument of exp and expm1 whose result is finite.
template <class D>
HWY_INLINE Value<D> exp_limit() {
  return Value<D>(sizeof(hn::TFromD<D>) == 4 ? 88.72283 : 709.7827);
}
/// y = exp(x) or expm1(x), which was computed for no more than exp_limit().
template <class D>
HWY_INLINE Value<D> exp_at_ends(Value<D> x, Value<D> y) {
  return keep_nan(x, select(x > exp_limit<D>(), Value<D>(hn::Inf(D())), y));
}
template <class D>
HWY_INLINE Value<D> exp(Value<D> x) {
  return exp_at_ends(x, Value<D>(hn::Exp(D(), hn::Min(x.raw, exp_limit<D>().raw))));
}
template <class D>
HWY_INLINE Value<D> expm1(Value<D> x) {
  return exp_at_ends(x, Value<D>(hn::Expm1(D(), hn::Min(x.raw, exp_limit<D>().raw))));
}
/// y = log(x), which was computed where x is above 0 and finite.
template <class D>
HWY_INLINE Value<D> log_at_ends(Value<D> x, Value<D> y) {
  const Value<D> zero(0), infinity(hn::Inf(D())), nan(hn::NaN(D()));
  return select(x < infinity, select(x > zero, y, select(x < zero, nan, -infinity)), x);
}
template <class D>
HWY_INLINE Value<D> log(Value<D> x) {
  return log_at_ends(x, Value<D>(hn::Log(D(), x.raw)));
}
template <class D>
HWY_INLINE Value<D> log1p(Value<D> x) {
  return log_at_ends(x + Value<D>(1), Value<D>(hn::Log1p(D(), x.raw)));
}
template <class D>
HWY_INLINE Value<D> tanh(Value<D> x) {
  return keep_nan(x, Value<D>(hn::Tanh(D(), x.raw)));
}
/// exp(x) in f32 for x <= 0, within an ulp, in half of the instructions of exp. 0 where the result
/// is below the least normal number.
template <class D>
HWY_INLINE Value<D> exp_below_0(Value<D> x) {
  static_assert(sizeof(hn::TFromD<D>) == 4);
  const D d;
  const hn::RebindToSigned<D> integers;
  // Adding 1.5 * 2^23 rounds x / log(2) to an integer k, which the lowest bits of the sum hold.
  const auto rounding = hn::Set(d, 12582912.0F);
  const auto sum = hn::MulAdd(x.raw, hn::Set(d, 1.44269504F), rounding);
  const auto k = hn::Sub(sum, rounding);
  // r = x - k log(2), with log(2) in two parts, of which the first times k is exact.
  auto r = hn::NegMulAdd(k, hn::Set(d, 0.693359375F), x.raw);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4F), r);
  // exp(r) = 1 + r + r^2 P(r); P was fitted to a relative error of 3e-9 for |r| <= log(2) / 2.
  auto p = hn::Set(d, 0.0013814599F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.008368717F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166839F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666521F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994F));
  const auto of_r = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(integers, sum)),
                                hn::BitCast(integers, hn::Set(d, 1.0F)));
  const auto result = hn::Mul(of_r, hn::BitCast(d, exponent));
  // The comparison is false for NaN, which r has become.
  return select(x < Value<D>(-87.33654), Value<D>(0), Value<D>(result));
}
/// 1 / a in f32 for a in [1, 8], within an ulp.
template <class D>
HWY_INLINE Value<D> inverse_of_1_to_8(Value<D> a) {
#if HWY_TARGET <= HWY_AVX3
  static_assert(hn::MaxLanes(D()) == 16);  // estimates of narrower vectors have fewer bits
  // A division of 16 lanes takes as long as some 30 other instructions. The estimate has 14 bits;
  // a step of Newton's method doubles them.
  const hn::Vec<D> estimate = hn::ApproximateReciprocal(a.raw);
  const hn::Vec<D> error = hn::NegMulAdd(a.raw, estimate, hn::Set(D(), 1.0F));
  return Value<D>(hn::MulAdd(estimate, error, estimate));
#else
  return Value<D>(1) / a;
#endif
}
/// By exp(-|x|), which cannot overflow: sigmoid(-x) = exp(-x) sigmoid(x).
template <class D>
HWY_INLINE Value<D> sigmoid(Value<D> x) {
  const Value<D> e = exp_below_0(-abs(x)), above = inverse_of_1_to_8(Value<D>(1) + e);
  return select(x < Value<D>(0), e * above, above);
}
/// erfc(a) = exp(-a^2) t P(t) for a >= 0 and t = 1 / (1 + a / 2). P was fitted to a relative error
/// of 5e-8 for a up to 14; beyond 9.3 the result is 0, as exp(-a^2) is.
template <class D>
HWY_INLINE Value<D> erfc(Value<D> x) {
  static_assert(sizeof(hn::TFromD<D>) == 4);
  constexpr double kPolynomial[] = {-0.0593871051704, 0.286126760099,   -0.490411357939,
                                    0.28173797301,    -0.0291509918183, 0.203753211504,
                                    0.242835038691,   0.282412095067,   0.282084332373};
  const Value<D> size = abs(x), a = select(size > Value<D>(14), Value<D>(14), size);
  const Value<D> t = inverse_of_1_to_8(Value<D>(1) + Value<D>(0.5) * a);
  Value<D> p(kPolynomial[0]);
  for (int i = 1; i < 9; ++i) p = Value<D>(hn::MulAdd(p.raw, t.raw, Value<D>(kPolynomial[i]).raw));
  // The exponent in two parts: rounding a^2 alone would cost the result three digits.
  const Value<D> square = a * a, rest(hn::MulSub(a.raw, a.raw, square.raw));
  const Value<D> above = exp_below_0(-square) * (Value<D>(1) - rest) * t * p;
  return select(x < Value<D>(0), Value<D>(2) - above, above);
}
/// In f64: the error of a logarithm in f32 would be multiplied by the exponent.
template <class D>
HWY_INLINE Value<D> pow(Value<D> x, double exponent) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const Value<D> size = exp(Value<D>(exponent) * log(abs(x)));
    if (std::trunc(exponent) != exponent) {
      const Value<D> nan(hn::NaN(D())), least(hn::Neg(hn::Inf(D())));
      return select(x < Value<D>(0), select(x > least, nan, size), size);
    }
    const bool odd = std::fmod(exponent, 2) != 0;
    return odd ? Value<D>(hn::CopySign(size.raw, x.raw)) : size;
  } else {
    using Wide = Value<typename WideLanes<D>::DD>;
    WideLanes<D> wide(x.raw);
    wide.low = pow(Wide(wide.low), exponent).raw;
    wide.high = pow(Wide(wide.high), exponent).raw;
    return Value<D>(wide.narrow());
  }
}

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
