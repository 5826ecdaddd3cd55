// Numbers that Noise adds, drawn from random words.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// Coefficients of erf^-1(x) / x in w = -log(1 - x^2), the highest power first: Giles,
/// "Approximating the erfinv function", GPU Computing Gems Jade Edition, 2011 (single precision,
/// relative error about 1e-6).
inline constexpr int kErfInverseTerms = 9;
/// For w < 5, in powers of w - 2.5.
CREMA_FUNCTOR float erf_inverse_centre(int i) {
  constexpr float kCoefficients[kErfInverseTerms] = {
      2.81022636e-08F, 3.43273939e-07F, -3.5233877e-06F, -4.39150654e-06F, 0.00021858087F,
      -0.00125372503F, -0.00417768164F, 0.246640727F,    1.50140941F};
  return kCoefficients[i];
}
/// For w >= 5, in powers of sqrt(w) - 3.
CREMA_FUNCTOR float erf_inverse_tail(int i) {
  constexpr float kCoefficients[kErfInverseTerms] = {
      -0.000200214257F, 0.000100950558F, 0.00134934322F, -0.00367342844F, 0.00573950773F,
      -0.0076224613F,   0.00943887047F,  1.00167406F,    2.83297682F};
  return kCoefficients[i];
}

struct NoiseMath {
  bool gaussian = true;
  bool by_value = false;  // times the magnitude of the value
  float mean = 0, deviation = 0;

  /// Evenly distributed in (-1, 1): the odd multiples of 2^-23.
  static CREMA_FUNCTOR float even(uint32_t word) {
    return (static_cast<float>(word >> 9) + 0.5F) * 0x1p-22F - 1;
  }
  static CREMA_FUNCTOR float normal(uint32_t word) {
    const float x = even(word);
    const float w = -std::log((1 - x) * (1 + x));
    const bool centre = w < 5;
    const float t = centre ? w - 2.5F : std::sqrt(w) - 3;
    float p = 0;
    for (int i = 0; i < kErfInverseTerms; ++i)
      p = p * t + (centre ? erf_inverse_centre(i) : erf_inverse_tail(i));
    return 1.41421356F * p * x;
  }
  /// Of mean 0 and deviation 1.
  CREMA_FUNCTOR float draw(uint32_t word) const {
    return gaussian ? normal(word) : 1.73205081F * even(word);
  }
  template <class T>
  CREMA_FUNCTOR T apply(T x, uint32_t word, T range) const {
    const T size = by_value ? (x < T{0} ? -x : x) : range;
    return x + size * static_cast<T>(mean + deviation * draw(word));
  }
};

/// y = math.apply(x, word, range) for n elements, on one thread of the CPU. y may be x.
void add_noise(const NoiseMath& math, const uint32_t* words, float range, int64_t n, const float* x,
               float* y);

}  // namespace crema
