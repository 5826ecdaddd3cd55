// y = min(max(x, low), high).
struct Math {
  static constexpr const char* type = "Clip";
  static constexpr bool keeps_zero = false;

  float low = 0, high = 0;

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.clip_param();
    if (!settings.has_min() || !settings.has_max())
      throw Error("min and max are missing; say clip_param { min: 0 max: 6 }");
    if (!(settings.min() <= settings.max()))
      throw Error("min ", settings.min(), " is not at most max ", settings.max());
    return {settings.min(), settings.max()};
  }

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return select(x < V(low), V(low), select(x > V(high), V(high), x));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    return select(x >= V(low), select(x <= V(high), dy, V(0)), V(0));
  }
};
