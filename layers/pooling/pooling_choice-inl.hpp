// What the kernels of both kinds of memory share: which value wins, and choices as vectors of
// cells. Compiled once for each set of vector instructions, see backend/cpu/highway.hpp.
#include "backend/cpu/highway.hpp"

#if defined(CREMA_LAYERS_POOLING_CHOICE) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_LAYERS_POOLING_CHOICE
#undef CREMA_LAYERS_POOLING_CHOICE
#else
#define CREMA_LAYERS_POOLING_CHOICE
#endif

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

/// Where `value` takes the place of `best`, which comes before it: the first of equal values stays,
/// NaN wins over every value before it, over NaN too.
template <class V>
HWY_INLINE auto wins_over(V value, V best) {
  return hn::Or(hn::Gt(value, best), hn::IsNaN(value));
}

template <class D, class V>
HWY_INLINE void store_choice(D cells, V chosen, int32_t* to) {
  hn::StoreU(chosen, cells, to);
}
template <class D, class V>
HWY_INLINE void store_choice(D /*cells*/, V chosen, uint8_t* to) {
  const hn::Rebind<uint8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, chosen), bytes, to);
}

template <class D>
HWY_INLINE auto load_choice(D cells, const int32_t* from) {
  return hn::LoadU(cells, from);
}
template <class D>
HWY_INLINE auto load_choice(D cells, const uint8_t* from) {
  return hn::PromoteTo(cells, hn::LoadU(hn::Rebind<uint8_t, D>(), from));
}

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
