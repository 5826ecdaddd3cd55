// y = 1 / (1 + exp(-x)).
struct Math {
  static constexpr const char* type = "Sigmoid";
  static constexpr bool keeps_zero = false;

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return true; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return sigmoid(x);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V /*x*/, V y) const {
    return dy * y * (V(1) - y);
  }
};
