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

/// What the input gives to the sum of unit u in block k of row n, which has `blocks` of them.
template <class T, class Access>
CREMA_FUNCTOR typename Access::Value input_sum(const ForwardStep<T>& s, int64_t blocks, int64_t n,
                                               int64_t k, int64_t u, const Access& access) {
  const int64_t column = k * s.units + u, at = n * blocks * s.units + column;
  typename Access::Value sum = access.load(s.sums + at);
  if (s.bias) sum = sum + access.load(s.bias + column);
  if (s.of_sequence) sum = sum + access.load(s.of_sequence + at);
  return sum;
}
/// That, and what the state gives, whose rows have `more_blocks`.
template <class T, class Access>
CREMA_FUNCTOR typename Access::Value sum_of(const ForwardStep<T>& s, int64_t blocks, int64_t n,
                                            int64_t k, int64_t u, const Access& access,
                                            int64_t more_blocks) {
  typename Access::Value sum = input_sum(s, blocks, n, k, u, access);
  if (s.more_sums) sum = sum + access.load(s.more_sums + (n * more_blocks + k) * s.units + u);
  return sum;
}

/// Writes h of a step, and what the next one gets of it.
template <class T, class Access>
CREMA_FUNCTOR void store_hidden(const ForwardStep<T>& s, int64_t n, int64_t u,
                                typename Access::Value h, const Access& access) {
  access.store(h, s.hidden + n * s.hidden_row + u);
  if (s.next_hidden) store_masked(s.next_factor, n, h, s.next_hidden, n * s.units + u, access);
}
/// The diff of h: that of the top, and what the next step hands back.
template <class T, class Access>
CREMA_FUNCTOR typename Access::Value hidden_diff_of(const BackwardStep<T>& s, int64_t n, int64_t u,
                                                    const Access& access) {
  const int64_t at = n * s.units + u;
  typename Access::Value dh = access.load(s.hidden_diff + n * s.hidden_row + u);
  if (s.next_hidden_diff) dh = dh + masked(s.next_factor, n, s.next_hidden_diff, at, access);
  if (s.kept_diff) dh = dh + masked(s.next_factor, n, s.kept_diff, at, access);
  return dh;
}

// c = f * c_before + i * g, h = o * tanh(c)
struct LstmCell {
  static constexpr CellKind kKind = CellKind::lstm;

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V i = sigmoid(sum_of(s, 4, n, 0, u, access, 4));
    const V f = sigmoid(sum_of(s, 4, n, 1, u, access, 4));
    const V o = sigmoid(sum_of(s, 4, n, 2, u, access, 4));
    const V g = tanh(sum_of(s, 4, n, 3, u, access, 4));
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
    store_hidden(s, n, u, h, access);
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
    const V dh = hidden_diff_of(s, n, u, access);
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
  static constexpr CellKind kKind = CellKind::rnn;

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const V h = tanh(sum_of(s, 1, n, 0, u, access, 1));
    if (s.gates) access.store(h, s.gates + n * s.units + u);
    store_hidden(s, n, u, h, access);
  }

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V h = access.load(s.gates + at);
    const V dh = hidden_diff_of(s, n, u, access);
    access.store(dh * (V(1) - h * h), s.sum_diffs + at);
  }
};

// h = (1 - z) * n + z * h_before
template <class T, class Access>
CREMA_FUNCTOR void store_gru(const ForwardStep<T>& s, int64_t n, int64_t u,
                             typename Access::Value z, typename Access::Value candidate,
                             const Access& access) {
  using V = typename Access::Value;
  const V before = access.load(s.hidden_before + n * s.units + u);
  store_hidden(s, n, u, (V(1) - z) * candidate + z * before, access);
}
template <class V>
struct GruDiffs {
  V of_update, of_candidate;  // the sums of z and of the candidate
};
/// From dh. Writes what of it passes to hidden_before without a product.
template <class T, class Access>
CREMA_FUNCTOR GruDiffs<typename Access::Value> gru_diffs(const BackwardStep<T>& s, int64_t n,
                                                         int64_t u, const Access& access) {
  using V = typename Access::Value;
  const int64_t at = n * s.units + u, first = 3 * n * s.units + u;
  const V z = access.load(s.gates + first + s.units);
  const V candidate = access.load(s.gates + first + 2 * s.units);
  const V before = access.load(s.hidden_before + at);
  const V dh = hidden_diff_of(s, n, u, access);
  access.store(dh * z, s.kept_before_diff + at);
  return {dh * (before - candidate) * z * (V(1) - z),
          dh * (V(1) - z) * (V(1) - candidate * candidate)};
}

// n = tanh(input sum + r * (state's sum + its bias))
struct GruCell {
  static constexpr CellKind kKind = CellKind::gru;

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const V r = sigmoid(sum_of(s, 3, n, 0, u, access, 3));
    const V z = sigmoid(sum_of(s, 3, n, 1, u, access, 3));
    V of_state = access.load(s.recurrent_bias + u);
    if (s.more_sums) of_state = of_state + access.load(s.more_sums + (3 * n + 2) * s.units + u);
    const V candidate = tanh(input_sum(s, 3, n, 2, u, access) + r * of_state);
    T* const gates = s.gates + 3 * n * s.units + u;
    access.store(r, gates);
    access.store(z, gates + s.units);
    access.store(candidate, gates + 2 * s.units);
    if (s.of_state) access.store(of_state, s.of_state + n * s.units + u);
    store_gru(s, n, u, z, candidate, access);
  }

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t first = 3 * n * s.units + u;
    const V r = access.load(s.gates + first);
    const auto diffs = gru_diffs(s, n, u, access);
    const V of_state = access.load(s.of_state + n * s.units + u);
    const V of_reset = diffs.of_candidate * of_state * r * (V(1) - r);
    access.store(of_reset, s.sum_diffs + first);
    access.store(diffs.of_update, s.sum_diffs + first + s.units);
    access.store(diffs.of_candidate, s.sum_diffs + first + 2 * s.units);
    access.store(of_reset, s.recurrent_diffs + first);
    access.store(diffs.of_update, s.recurrent_diffs + first + s.units);
    access.store(diffs.of_candidate * r, s.recurrent_diffs + first + 2 * s.units);
  }
};

// The gates r and z, and r * h_before, of a GRU whose candidate is made of that product.
struct GruGatesCell {
  static constexpr CellKind kKind = CellKind::gru_gates;

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const V r = sigmoid(sum_of(s, 3, n, 0, u, access, 2));
    T* const gates = s.gates + 3 * n * s.units + u;
    const V z = sigmoid(sum_of(s, 3, n, 1, u, access, 2));
    access.store(r, gates);
    access.store(z, gates + s.units);
    const int64_t at = n * s.units + u;
    access.store(r * access.load(s.hidden_before + at), s.of_state + at);
  }

  // After that of GruCandidateCell.
  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    const int64_t at = n * s.units + u;
    const V r = access.load(s.gates + 3 * n * s.units + u);
    const V diff = s.of_state_diff ? access.load(s.of_state_diff + at) : V(0);
    const V of_reset = diff * access.load(s.hidden_before + at) * r * (V(1) - r);
    access.store(of_reset, s.sum_diffs + 3 * n * s.units + u);
    access.store(of_reset, s.recurrent_diffs + 2 * n * s.units + u);
    access.store(access.load(s.kept_before_diff + at) + diff * r, s.kept_before_diff + at);
  }
};

// n = tanh(input sum + the product of r * h_before)
struct GruCandidateCell {
  static constexpr CellKind kKind = CellKind::gru_candidate;

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const ForwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    using V = typename Access::Value;
    V sum = input_sum(s, 3, n, 2, u, access);
    if (s.more_sums) sum = sum + access.load(s.more_sums + n * s.units + u);
    const V candidate = tanh(sum);
    T* const gates = s.gates + 3 * n * s.units + u;
    access.store(candidate, gates + 2 * s.units);
    store_gru(s, n, u, access.load(gates + s.units), candidate, access);
  }

  template <class T, class Access>
  CREMA_FUNCTOR static void compute(const BackwardStep<T>& s, int64_t n, int64_t u,
                                    const Access& access) {
    const int64_t first = 3 * n * s.units + u;
    const auto diffs = gru_diffs(s, n, u, access);
    access.store(diffs.of_update, s.sum_diffs + first + s.units);
    access.store(diffs.of_candidate, s.sum_diffs + first + 2 * s.units);
    access.store(diffs.of_update, s.recurrent_diffs + (2 * n + 1) * s.units + u);
    access.store(diffs.of_candidate, s.candidate_diffs + n * s.units + u);
  }
};
