// y = base ^ (scale * x + shift) = exp(inner * x + outer).
struct Math {
  static constexpr const char* type = "Exp";
  static constexpr bool keeps_zero = false;

  double inner = 1, outer = 0;

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.exp_param();
    const double base = static_cast<double>(settings.base());
    if (!(base > 0) && base != -1)
      throw Error("base ", base, " is not above 0; -1, the default, stands for e");
    const double log_base = base == -1 ? 1 : std::log(base);
    return {log_base * static_cast<double>(settings.scale()),
            log_base * static_cast<double>(settings.shift())};
  }

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return true; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return exp(V(inner) * x + V(outer));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V /*x*/, V y) const {
    return V(inner) * dy * y;
  }
};
