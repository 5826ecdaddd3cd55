// y = min(max(x, 0), 6).
struct Math {
  static constexpr const char* type = "ReLU6";
  static constexpr bool keeps_zero = true;

  CREMA_FUNCTOR bool reads_x() const { return false; }
  CREMA_FUNCTOR bool reads_y() const { return true; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return select(x < V(0), V(0), select(x > V(6), V(6), x));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V /*x*/, V y) const {
    return select(y > V(0), select(y < V(6), dy, V(0)), V(0));
  }
};
