// y = x * tanh(log(1 + exp(x))).
struct Math {
  static constexpr const char* type = "Mish";
  static constexpr bool keeps_zero = true;

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  // With e = exp(x), tanh(log(1 + e)) = n / (n + 2) for n = e (e + 2). It is 1 in all digits where
  // e is cut off, long before n overflows.
  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    const V e = cut_exp(x), n = e * (e + V(2));
    return x * (n / (n + V(2)));
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    const V e = cut_exp(x), n = e * (e + V(2)), inverse = V(1) / (n + V(2));
    return dy * (n * inverse + x * V(4) * e * (e + V(1)) * inverse * inverse);
  }

  template <class V>
  CREMA_FUNCTOR V cut_exp(V x) const {
    return exp(select(x > V(20), V(20), x));
  }
};
