// Eltwise at one place, written once for numbers (f64), for vectors (f32 on the CPU) and for the
// packs of devices.
//
// `at` loads and stores the elements that are computed at once: Number<T>, the vectors of
// eltwise_kernels.cpp, or PackAt<T> (core/float_values.hpp). `in` has the operands, one a bottom:
// x, dx (null where no diff is wanted), coefficient, and their count. The elements of a place are
// read before any of the same memory is written, so results may lie in the memory of operands.
//
// The file has no include guard and no namespace, because it is included once for each kind.
#include "backend/relu_math.hpp"

/// One element of type T.
template <class T>
struct Number {
  using V = T;
  int64_t i;

  [[gnu::always_inline]] CREMA_FUNCTOR V load(const void* from) const {
    return static_cast<const T*>(from)[i];
  }
  [[gnu::always_inline]] CREMA_FUNCTOR void store(V value, void* to) const {
    static_cast<T*>(to)[i] = value;
  }
  [[gnu::always_inline]] CREMA_FUNCTOR V load_byte(const uint8_t* from) const {
    return static_cast<V>(from[i]);
  }
  [[gnu::always_inline]] CREMA_FUNCTOR void store_byte(V value, uint8_t* to) const {
    to[i] = static_cast<uint8_t>(value);
  }
};

struct Sum {
  template <class At, class In, class Out>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseForwardTo<Out>& w) {
    using V = typename At::V;
    V sum = V(in.coefficient[0]) * at.load(in.x[0]);
    for (int k = 1; k < in.count; ++k) sum = sum + V(in.coefficient[k]) * at.load(in.x[k]);
    at.store(ReLUMath{w.slope}.forward(sum), w.y);
  }
  /// y is given where a ReLU was absorbed.
  template <class At, class In, class From>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseBackwardFrom<From>& w, int k) {
    using V = typename At::V;
    V g = at.load(w.dy);
    if (w.y) g = ReLUMath{w.slope}.backward(g, V(0), at.load(w.y));
    at.store(V(in.coefficient[k]) * g, in.dx[k]);
  }
};

struct Product {
  template <class At, class In, class Out>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseForwardTo<Out>& w) {
    auto product = at.load(in.x[0]);
    for (int k = 1; k < in.count; ++k) product = product * at.load(in.x[k]);
    at.store(product, w.y);
  }
  /// y is given where the quotient y / x is to be taken for the product of the others.
  template <class At, class In, class From>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseBackwardFrom<From>& w, int k) {
    using V = typename At::V;
    V factor = V(1);
    if (w.y) {
      factor = at.load(w.y) / at.load(in.x[k]);
    } else {
      for (int j = 0; j < in.count; ++j) {
        if (j != k) factor = factor * at.load(in.x[j]);
      }
    }
    at.store(at.load(w.dy) * factor, in.dx[k]);
  }
};

/// Of equal values the first counts; NaN wins, so that it is seen further on.
struct Maximum {
  /// `which`, the bottom that the maximum is of, may be null.
  template <class At, class In, class Out>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseForwardTo<Out>& w) {
    using V = typename At::V;
    V most = at.load(in.x[0]), which = V(0);
    for (int k = 1; k < in.count; ++k) {
      const V x = at.load(in.x[k]);
      which = select(x > most, V(k), which);
      which = select(x >= x, which, V(k));
      most = select(x > most, x, most);
      most = select(x >= x, most, x);
    }
    at.store(most, w.y);
    if (w.which) at.store_byte(which, w.which);
  }
  template <class At, class In, class From>
  [[gnu::always_inline]] CREMA_FUNCTOR static void run(At at, const In& in,
                                                       const EltwiseBackwardFrom<From>& w, int k) {
    using V = typename At::V;
    at.store(select(at.load_byte(w.which) == V(k), at.load(w.dy), V(0)), in.dx[k]);
  }
};

/// call(Sum()), or the like.
template <class Call>
[[gnu::always_inline]] inline void with_operation(EltwiseOperation operation, const Call& call) {
  switch (operation) {
    case EltwiseOperation::sum:
      return call(Sum());
    case EltwiseOperation::product:
      return call(Product());
    case EltwiseOperation::maximum:
      return call(Maximum());
  }
}
