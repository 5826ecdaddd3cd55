// y = log(1 + exp(x)), without overflow.
struct Math {
  static constexpr const char* type = "BNLL";
  static constexpr bool keeps_zero = false;

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return select(x > V(0), x, V(0)) + log1p(exp(-abs(x)));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    return dy / (V(1) + exp(-x));
  }
};
