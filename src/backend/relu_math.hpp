// y = x for x > 0, slope * x otherwise. A slope of 0 is not multiplied, because 0 * -inf is NaN.
// NaN stays NaN. Backward needs the sign of x. If slope >= 0, y has the same sign, so x may be
// overwritten; otherwise backward reads x.
//
// The functions are always inline, because layers that apply a ReLU in their tail are compiled for
// several widths of vectors. The file has no include guard and no namespace, because it is included
// once for each kind of V (layer_support/pointwise.hpp). backend/relu.hpp includes it for numbers.
struct ReLUMath {
  float slope = 0;

  CREMA_FUNCTOR bool reads_x() const { return slope < 0; }
  CREMA_FUNCTOR bool reads_y() const { return !reads_x(); }

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
