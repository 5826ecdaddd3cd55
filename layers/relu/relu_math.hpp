// y = x for x > 0, negative_slope * x otherwise. A slope of 0 is not multiplied, because 0 * -inf
// is NaN. NaN stays NaN. The functions are always inline, because layers that apply a ReLU in their
// tail are compiled for several widths of vectors. Backward needs the sign of x. If slope >= 0, y
// has the same sign, so x may be overwritten; otherwise backward reads x.
struct Math {
  static constexpr const char* type = "ReLU";
  static constexpr bool keeps_zero = true;

  float slope = 0;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {param.relu_param().negative_slope()};
  }
  CREMA_FUNCTOR bool reads_x() const { return slope < 0; }
  CREMA_FUNCTOR bool reads_y() const { return !reads_x(); }
  // A layer that takes it over has no x to keep.
  std::optional<Activation> activation() const {
    if (reads_x()) return std::nullopt;
    return Activation{Activation::Kind::relu, slope};
  }

  // The sum makes 0 of -0.
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V forward(V x) const {
    return select(x < V(0), scaled(x), x + V(0));
  }
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V backward(V dy, V x, V y) const {
    return select((reads_x() ? x : y) > V(0), dy, scaled(dy));
  }
  template <class V>
  [[gnu::always_inline]] CREMA_FUNCTOR V scaled(V value) const {
    return slope == 0 ? V(0) : V(slope) * value;
  }
};
