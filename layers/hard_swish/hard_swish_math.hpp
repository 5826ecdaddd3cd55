// y = x * min(max(x / 6 + 1 / 2, 0), 1).
struct Math {
  static constexpr const char* type = "HardSwish";
  static constexpr bool keeps_zero = true;

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return select(x <= V(-3), V(0), select(x >= V(3), x, x * (x * V(1.0 / 6) + V(0.5))));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    return select(x <= V(-3), V(0), select(x >= V(3), dy, dy * (x * V(1.0 / 3) + V(0.5))));
  }
};
