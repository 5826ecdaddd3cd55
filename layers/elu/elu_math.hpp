// y = lambda * x for x > 0, else lambda * alpha * (exp(x) - 1).
struct Math {
  static constexpr const char* type = "ELU";
  static constexpr bool keeps_zero = true;

  float alpha = 1, lambda = 1;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {param.elu_param().alpha(), param.elu_param().lambda()};
  }

  // y has the sign of x unless a factor is negative or 0.
  CREMA_FUNCTOR bool reads_x() const { return !reads_y(); }
  CREMA_FUNCTOR bool reads_y() const { return alpha >= 0 && lambda > 0; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return V(lambda) * select(x > V(0), x, V(alpha) * expm1(x));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V y) const {
    const V below = reads_y() ? y : V(lambda) * V(alpha) * expm1(x);
    return dy * select((reads_y() ? y : x) > V(0), V(lambda), below + V(lambda) * V(alpha));
  }
};
