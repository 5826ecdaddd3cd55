// The loop of Noise on one thread of the CPU, in f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/noise/noise_kernels.cpp"
#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"
#include "layers/noise/noise_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

HWY_INLINE V even(hn::Vec<hn::RebindToUnsigned<Floats>> words) {
  const Floats d;
  const V number =
      hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<Floats>(), hn::ShiftRight<9>(words)));
  return hn::Sub(hn::Mul(hn::Add(number, hn::Set(d, 0.5F)), hn::Set(d, 0x1p-22F)), hn::Set(d, 1));
}

HWY_INLINE V normal(V x) {
  const Floats d;
  const V one = hn::Set(d, 1);
  const V w = hn::Neg(log_of(d, hn::Mul(hn::Sub(one, x), hn::Add(one, x))));
  const auto centre = hn::Lt(w, hn::Set(d, 5));
  const V t =
      hn::IfThenElse(centre, hn::Sub(w, hn::Set(d, 2.5F)), hn::Sub(hn::Sqrt(w), hn::Set(d, 3)));
  V p = hn::Zero(d);
  for (int i = 0; i < kErfInverseTerms; ++i) {
    const V coefficient =
        hn::IfThenElse(centre, hn::Set(d, erf_inverse_centre(i)), hn::Set(d, erf_inverse_tail(i)));
    p = hn::MulAdd(p, t, coefficient);
  }
  return hn::Mul(hn::Mul(hn::Set(d, 1.41421356F), p), x);
}

HWY_FLATTEN void add(const NoiseMath& math, const uint32_t* words, float range, int64_t n,
                     const float* x, float* y) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> unsigned_words;
  const V mean = hn::Set(d, math.mean), deviation = hn::Set(d, math.deviation);
  const bool gaussian = math.gaussian, by_value = math.by_value;
  each_vector(d, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V uniform = even(load(unsigned_words, lanes, words + i));
    const V drawn = gaussian ? normal(uniform) : hn::Mul(hn::Set(d, 1.73205081F), uniform);
    const V value = load(d, lanes, x + i);
    const V size = by_value ? hn::Abs(value) : hn::Set(d, range);
    const V noise = hn::MulAdd(deviation, drawn, mean);
    store(d, lanes, hn::MulAdd(size, noise, value), y + i);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(add);

}  // namespace

void add_noise(const NoiseMath& math, const uint32_t* words, float range, int64_t n, const float* x,
               float* y) {
  HWY_DYNAMIC_DISPATCH(add)(math, words, range, n, x, y);
}

}  // namespace crema
#endif
