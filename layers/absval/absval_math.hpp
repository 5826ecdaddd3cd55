// y = |x|. The gradient at 0 is 0.
struct Math {
  static constexpr const char* type = "AbsVal";
  static constexpr bool keeps_zero = true;

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return abs(x);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    return dy * select(x > V(0), V(1), select(x < V(0), V(-1), x));
  }
};
