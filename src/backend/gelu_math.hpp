// y = x * P(X <= x) for a standard normal X, exact or with the published approximation by tanh.
//
// As backend/relu_math.hpp: always inline, without include guard and namespace, included once for
// each kind of V.
struct GELUMath {
  bool by_tanh = false;

  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V forward(V x) const {
    return x * (by_tanh ? gate(x) : share_below(x));
  }
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    if (by_tanh) {
      const V g = gate(x), slope = V(2 * kRoot2OverPi) * (V(1) + V(3 * kCubic) * x * x);
      return dy * g * (V(1) + x * (V(1) - g) * slope);
    }
    constexpr double kPeak = 0.39894228040143267794;  // 1 / sqrt(2 pi)
    return dy * (share_below(x) + x * V(kPeak) * exp(V(-0.5) * x * x));
  }

  static constexpr double kRoot2OverPi = 0.79788456080286535588, kCubic = 0.044715;

  // (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where it is nearly 0.
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V gate(V x) const {
    return sigmoid(V(2 * kRoot2OverPi) * (x + V(kCubic) * x * x * x));
  }
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V share_below(V x) const {
    return V(0.5) * erfc(V(-0.70710678118654752440) * x);
  }
};
