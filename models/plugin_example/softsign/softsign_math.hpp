// y = x / (1 + |x| / limit), whose derivative is 1 / (1 + |x| / limit)^2.
struct Math {
  static constexpr const char* type = "Softsign";
  static constexpr bool keeps_zero = true;

  float per_limit = 1;  // 1 / limit

  template <class Parameter>
  static Math of(const Parameter& param) {
    const float limit = param.GetExtension(plugin_example::softsign_param).limit();
    if (!(limit > 0)) throw crema::Error("limit is ", limit, "; it has to be above 0");
    return {1 / limit};
  }
  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  template <class V>
  CREMA_FUNCTOR V forward(V x) const {
    return x / divisor(x);
  }
  template <class V>
  CREMA_FUNCTOR V backward(V dy, V x, V /*y*/) const {
    const V d = divisor(x);
    return dy / (d * d);
  }
  template <class V>
  CREMA_FUNCTOR V divisor(V x) const {
    return V(1) + V(per_limit) * select(x < V(0), -x, x);
  }
};
