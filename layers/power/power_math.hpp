// y = (scale * x + shift) ^ power.
struct Math {
  static constexpr const char* type = "Power";
  static constexpr bool keeps_zero = false;

  double power = 1, scale = 1, shift = 0;

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.power_param();
    return {static_cast<double>(settings.power()), static_cast<double>(settings.scale()),
            static_cast<double>(settings.shift())};
  }

  CREMA_FUNCTOR bool reads_x() const { return power * scale != 0 && power != 1; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return raised(x, power);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    if (!reads_x()) return V(power * scale) * dy;
    return V(power * scale) * dy * raised(x, power - 1);
  }

  template <class V>
  CREMA_FUNCTOR V raised(V x, double exponent) const {
    // A constant even where x is infinite.
    const V base = scale == 0 ? V(shift) : V(scale) * x + V(shift);
    if (exponent == 0) return V(1);
    if (exponent == 1) return base;
    if (exponent == 2) return base * base;
    if (exponent == 3) return base * base * base;
    if (exponent == 0.5) return sqrt(base);
    if (exponent == -1) return V(1) / base;
    return pow(base, exponent);
  }
};
