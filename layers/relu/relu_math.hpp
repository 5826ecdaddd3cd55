// y = x for x > 0, negative_slope * x otherwise. Slope 0 is no factor, since 0 * -inf is NaN. NaN
// stays. Always inline, since the passes of other rooms that absorbed a ReLU are compiled for
// several widths of vectors. Backward needs the sign of x: that of y while slope >= 0, so that x
// may be overwritten; x itself where a negative slope folds both signs into one.
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
