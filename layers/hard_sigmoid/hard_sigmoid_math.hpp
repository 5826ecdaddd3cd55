// y = min(max(alpha * x + beta, 0), 1).
struct Math {
  static constexpr const char* type = "HardSigmoid";
  static constexpr bool keeps_zero = false;

  float alpha = 1.0F / 6, beta = 0.5F;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {param.hard_sigmoid_param().alpha(), param.hard_sigmoid_param().beta()};
  }

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return true; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    const V line = V(alpha) * x + V(beta);
    return select(line < V(0), V(0), select(line > V(1), V(1), line));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V /*x*/, V y) const {
    return select(y > V(0), select(y < V(1), dy * V(alpha), V(0)), V(0));
  }
};
