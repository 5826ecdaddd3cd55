// Vectors of a fixed number of lanes, for loops that the compiler does not vectorize well by
// itself: conditions that choose between two things at once, values kept in registers over nested
// loops.
//
// They are the compiler's own vector types: + - * / < ?: work lane by lane, a comparison gives
// lanes of 0 and -1. As wide as the processor's registers they are as fast as intrinsics; wider
// ones are slow. Functions must not take or return them by value, since how that is done depends on
// the processor; pass references, or write loops in lambdas.
#pragma once

#include <cstdint>

namespace crema {

namespace vec_detail {
// Aligned as its elements are, so that a pointer to any of them will do.
template <class T, int Lanes>
struct VecOf {
  using type [[gnu::vector_size(Lanes * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};
}  // namespace vec_detail

template <class T, int Lanes>
using Vec = typename vec_detail::VecOf<T, Lanes>::type;

/// The lanes that start at `p`, to read or to write.
template <int Lanes, class T>
[[gnu::always_inline]] inline const Vec<T, Lanes>& lanes(const T* p) {
  return *reinterpret_cast<const Vec<T, Lanes>*>(p);
}
template <int Lanes, class T>
[[gnu::always_inline]] inline Vec<T, Lanes>& lanes(T* p) {
  return *reinterpret_cast<Vec<T, Lanes>*>(p);
}

}  // namespace crema
