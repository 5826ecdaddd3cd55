// The loss of one score x with target t in numbers or vectors V, and its derivative. Included
// inside a namespace by each file that has another V, as NAME_math.hpp
// (layer_support/pointwise.hpp).

/// log(1 + exp(x)) - t x, without overflow.
template <class V>
CREMA_FUNCTOR V loss_of(V x, V t) {
  return x * (select(x < V(0), V(0), V(1)) - t) + log1p(exp(-abs(x)));
}

/// sigmoid(x) - t.
template <class V>
CREMA_FUNCTOR V slope_of(V x, V t) {
  return sigmoid(x) - t;
}
