// Loads and stores of whole vectors and of their first lanes, for kernels written with Highway.
// Included once for each target, like the files that use it.
#if defined(CREMA_BACKEND_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_BACKEND_CPU_LANES_INL_HPP
#undef CREMA_BACKEND_CPU_LANES_INL_HPP
#else
#define CREMA_BACKEND_CPU_LANES_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

/// Behind the parameters of a lambda that works on vectors: Highway's target attributes do not
/// reach lambdas by themselves.
#undef CREMA_LANES_LAMBDA
#define CREMA_LANES_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The lanes of a vector that stand for elements: all, or the first n.
struct AllLanes {};
struct FirstLanes {
  int64_t n;
};

template <class D>
HWY_INLINE int64_t lanes_of(D d) {
  return static_cast<int64_t>(hn::Lanes(d));
}

/// Lanes beyond the first n are 0, and memory behind them is not read.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, AllLanes, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, FirstLanes lanes, const hn::TFromD<D>* from) {
#if HWY_MEM_OPS_MIGHT_FAULT
  if constexpr (hn::MaxLanes(D()) == 1) {
    return lanes.n > 0 ? hn::LoadU(d, from) : hn::Zero(d);
  } else {
    const hn::Half<D> half;
    const int64_t step = lanes_of(half);
    if (lanes.n < step) return hn::ZeroExtendVector(d, load(half, lanes, from));
    return hn::Combine(d, load(half, FirstLanes{lanes.n - step}, from + step),
                       hn::LoadU(half, from));
  }
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(lanes.n)), d, from);
#endif
}

template <class D>
HWY_INLINE void store(D d, AllLanes, hn::Vec<D> v, hn::TFromD<D>* to) {
  hn::StoreU(v, d, to);
}
template <class D>
HWY_INLINE void store(D d, FirstLanes lanes, hn::Vec<D> v, hn::TFromD<D>* to) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_SCALAR
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(lanes.n)), d, to);
#else
  // AVX2's masked stores are slow on some processors.
  if constexpr (hn::MaxLanes(D()) == 1) {
    if (lanes.n > 0) hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    const int64_t step = lanes_of(half);
    if (lanes.n < step) return store(half, lanes, hn::LowerHalf(half, v), to);
    hn::StoreU(hn::LowerHalf(half, v), half, to);
    store(half, FirstLanes{lanes.n - step}, hn::UpperHalf(half, v), to + step);
  }
#endif
}

/// v in the lanes that stand for elements, `otherwise` in the rest.
template <class D>
HWY_INLINE hn::Vec<D> keep(D, AllLanes, hn::Vec<D> v, hn::Vec<D>) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> keep(D d, FirstLanes lanes, hn::Vec<D> v, hn::Vec<D> otherwise) {
  return hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(lanes.n)), v, otherwise);
}

/// Bit i: whether lane i of the mask is set.
template <class D>
HWY_INLINE uint64_t bits_of(D d, hn::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

/// Calls body(i, lanes) until the elements [0, n) are covered, each once.
template <class D, class Body>
HWY_INLINE void each_vector(D d, int64_t n, const Body& body) {
  const int64_t step = lanes_of(d);
  int64_t i = 0;
  for (; i + step <= n; i += step) body(i, AllLanes{});
  if (i < n) body(i, FirstLanes{n - i});
}

/// The halves of a vector of f32 in double; with Highway's target of one lane, `high` is unused.
template <class D>
struct WideLanes {
#if HWY_TARGET == HWY_SCALAR
  using DD = hn::Rebind<double, D>;
#else
  using DD = hn::Repartition<double, D>;
#endif
  using V = hn::Vec<DD>;
  V low = hn::Zero(DD()), high = hn::Zero(DD());

  HWY_INLINE WideLanes() = default;
  explicit HWY_INLINE WideLanes(hn::Vec<D> v) {
#if HWY_TARGET == HWY_SCALAR
    low = hn::PromoteTo(DD(), v);
#else
    low = hn::PromoteTo(DD(), hn::LowerHalf(hn::Half<D>(), v));
    high = hn::PromoteTo(DD(), hn::UpperHalf(hn::Half<D>(), v));
#endif
  }
  HWY_INLINE void subtract(const WideLanes& other) {
    low = hn::Sub(low, other.low);
    high = hn::Sub(high, other.high);
  }
  HWY_INLINE void add(const WideLanes& other) {
    low = hn::Add(low, other.low);
    high = hn::Add(high, other.high);
  }
  HWY_INLINE void add_product(const WideLanes& a, const WideLanes& b) {
    low = hn::MulAdd(a.low, b.low, low);
    high = hn::MulAdd(a.high, b.high, high);
  }
  HWY_INLINE double total() const { return hn::GetLane(hn::SumOfLanes(DD(), hn::Add(low, high))); }
  /// Rounded to f32.
  HWY_INLINE hn::Vec<D> narrow() const {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(D(), static_cast<float>(hn::GetLane(low)));  // DemoteTo has no infinity there
#else
    const hn::Half<D> half;
    return hn::Combine(D(), hn::DemoteTo(half, high), hn::DemoteTo(half, low));
#endif
  }
  /// to[i] = lane i.
  HWY_INLINE void store_to(AllLanes, double* to) const {
    hn::StoreU(low, DD(), to);
#if HWY_TARGET != HWY_SCALAR
    hn::StoreU(high, DD(), to + lanes_of(DD()));
#endif
  }
  HWY_INLINE void store_to(FirstLanes lanes, double* to) const {
    HWY_ALIGN double room[2 * hn::MaxLanes(DD())] = {};
    store_to(AllLanes{}, room);
    std::memcpy(to, room, static_cast<size_t>(lanes.n) * sizeof(double));
  }
  /// to[i] += lane i.
  HWY_INLINE void add_to(AllLanes, double* to) const {
    const DD dd;
    hn::StoreU(hn::Add(hn::LoadU(dd, to), low), dd, to);
#if HWY_TARGET != HWY_SCALAR
    double* const second = to + lanes_of(dd);
    hn::StoreU(hn::Add(hn::LoadU(dd, second), high), dd, second);
#endif
  }
  HWY_INLINE void add_to(FirstLanes lanes, double* to) const {
    HWY_ALIGN double room[2 * hn::MaxLanes(DD())] = {};
    store_to(AllLanes{}, room);
    for (int64_t i = 0; i < lanes.n; ++i) to[i] += room[i];
  }
};

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
