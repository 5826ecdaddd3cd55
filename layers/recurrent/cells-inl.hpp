// The arithmetic of a step's elements, for cells.hpp. No include guard and no namespace: it is
// included once for numbers, and once for each set of vector instructions. compute() does element
// (n, u), or, on vectors, those from there on in the same row.

/// from[at] * factor[n]
template <class T, class Access>
CREMA_FUNCTOR typename Access::Value masked(const T* factor, int64_t n, const T* from, int64_t at,
                                            const Access& access) {
  using V = typename Access::Value;
  if (!factor) return access.load(from + at);
  if (factor[n] == T(0)) return V(0);
  return V(factor[n]) * access.load(from + at);
}
/// to[at] = value * factor[n]
template <class T, class Access>
CREMA_FUNCTOR void store_masked(const T* factor, int64_t n, typename Access::Value value, T* to,
                                int64_t at, const Access& access) {
  using V = typename Access::Value;
  if (factor) value = factor[n] == T(0) ? V(0) : V(factor[n]) * value;
  access.store(value, to + at);
}

/// The sum of unit u in block k of row n, which has `blocks` of them.
template <class T, class Access>
CREMA_FUNCTOR typename Access::Value sum_of(const ForwardStep<T>& s, int64_t blocks, int64_t n,
                                            int64_t k, int64_t u, const Access& access) {
  const int64_t column = k * s.units + u, at = n * blocks * s.units + column;
  typename Access::Value sum = access.load(s.sums + at);
  if (s.more_sums) sum = sum + access.load(s.more_sums + at);
  if (s.bias) sum = sum + access.load(s.bias + column);
  if (s.of_sequence) sum = sum + access.load(s.of_sequence + at);
  return sum;
}

template <class V>
CREMA_FUNCTOR V sigmoid(V x) {
  return V(1) / (V(1) + exp(-x));
}

// c = f * c_before + i * g, h = o * tanh(c)
struct LstmCell {
  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V i = sigmoid(sum_of(s, 4, n, 0, u, access));
    const V f = sigmoid(sum_of(s, 4, n, 1, u, access));
    const V o = sigmoid(sum_of(s, 4, n, 2, u, access));
    const V g = tanh(sum_of(s, 4, n, 3, u, access));
    const V c = f * masked(s.factor, n, s.cell_before, at, access) + i * g;
    const V h = o * tanh(c);
    if (s.gates) {
      T* const gates = s.gates + 4 * n * s.units + u;
      access.store(i, gates);
      access.store(f, gates + s.units);
      access.store(o, gates + 2 * s.units);
      access.store(g, gates + 3 * s.units);
    }
    access.store(c, s.cell + at);
    access.store(h, s.hidden + at);
    if (s.next_hidden) store_masked(s.next_factor, n, h, s.next_hidden, at, access);
  }

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u, first = 4 * n * s.units + u;
    const V i = access.load(s.gates + first), f = access.load(s.gates + first + s.units);
    const V o = access.load(s.gates + first + 2 * s.units);
    const V g = access.load(s.gates + first + 3 * s.units);
    const V before = masked(s.factor, n, s.cell_before, at, access);
    const V t = tanh(f * before + i * g);
    V dh = access.load(s.hidden_diff + at);
    if (s.next_hidden_diff) dh = dh + masked(s.next_factor, n, s.next_hidden_diff, at, access);
    V dc = dh * o * (V(1) - t * t);
    if (s.cell_diff) dc = dc + access.load(s.cell_diff + at);
    if (s.sum_diffs) {
      T* const diffs = s.sum_diffs + first;
      access.store(dc * g * i * (V(1) - i), diffs);
      access.store(dc * before * f * (V(1) - f), diffs + s.units);
      access.store(dh * t * o * (V(1) - o), diffs + 2 * s.units);
      access.store(dc * i * (V(1) - g * g), diffs + 3 * s.units);
    }
    if (s.cell_before_diff) store_masked(s.factor, n, dc * f, s.cell_before_diff, at, access);
  }
};

// h = tanh(sum)
struct RnnCell {
  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V h = tanh(sum_of(s, 1, n, 0, u, access));
    access.store(h, s.hidden + at);
    if (s.next_hidden) store_masked(s.next_factor, n, h, s.next_hidden, at, access);
  }

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V h = access.load(s.gates + at);
    V dh = access.load(s.hidden_diff + at);
    if (s.next_hidden_diff) dh = dh + masked(s.next_factor, n, s.next_hidden_diff, at, access);
    access.store(dh * (V(1) - h * h), s.sum_diffs + at);
  }
};
