// y = x / (1 + exp(-beta * x)).
struct Math {
  static constexpr const char* type = "Swish";
  static constexpr bool keeps_zero = true;

  float beta = 1;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {param.swish_param().beta()};
  }

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return x * gate(x);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    const V g = gate(x);
    return dy * g * (V(1) + V(beta) * x * (V(1) - g));
  }

  template <class V>
  CREMA_FUNCTOR V gate(V x) const {
    return sigmoid(V(beta) * x);
  }
};
