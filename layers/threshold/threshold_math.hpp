// y = 1 where x > threshold, else 0.
struct Math {
  static constexpr const char* type = "Threshold";
  static constexpr bool keeps_zero = false;
  static constexpr bool differentiable = false;

  float threshold = 0;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {param.threshold_param().threshold()};
  }

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return select(x > V(threshold), V(1), V(0));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V /*dy*/, V /*x*/, V /*y*/) const {
    return V(0);
  }
};
