// y = x * P(X <= x) for a standard normal X, exact or with the published approximation by tanh.
struct Math {
  static constexpr const char* type = "GELU";
  static constexpr bool keeps_zero = true;

  bool by_tanh = false;

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.gelu_param();
    return {settings.approximate() == settings.TANH};
  }

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return x * (by_tanh ? gate(x) : share_below(x));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
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
  CREMA_FUNCTOR V gate(V x) const {
    return sigmoid(V(2 * kRoot2OverPi) * (x + V(kCubic) * x * x * x));
  }
  template <class V>
  CREMA_FUNCTOR V share_below(V x) const {
    return V(0.5) * erfc(V(-0.70710678118654752440) * x);
  }
};
