// y = log_base(scale * x + shift).
struct Math {
  static constexpr const char* type = "Log";
  static constexpr bool keeps_zero = false;

  double factor = 1, scale = 1, shift = 0;  // factor: 1 / log(base)

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.log_param();
    const double base = static_cast<double>(settings.base());
    if ((!(base > 0) && base != -1) || base == 1)
      throw Error("base ", base, " is not above 0 and other than 1; -1, the default, stands for e");
    return {base == -1 ? 1 : 1 / std::log(base), static_cast<double>(settings.scale()),
            static_cast<double>(settings.shift())};
  }

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return V(factor) * log(V(scale) * x + V(shift));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    return V(factor * scale) * dy / (V(scale) * x + V(shift));
  }
};
