// y = tanh(x).
struct Math {
  static constexpr const char* type = "TanH";
  static constexpr bool keeps_zero = true;

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return true; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return tanh(x);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V /*x*/, V y) const {
    return dy * (V(1) - y * y);
  }
};
