// Vectors of a fixed number of lanes, for loops that the compiler does not vectorize well by
// itself: conditions that choose between two things at once, values kept in registers over nested
// loops.
//
// They are the compiler's own vector types: + - * / < ?: work lane by lane, a comparison gives
// lanes of 0 and -1. As wide as the processor's registers they are as fast as intrinsics; wider
// ones are slow. Functions must not take or return them by value, since how that is done depends on
// the processor; pass references, or write loops in lambdas.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

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

/// equal = the values from `p` on equal `value`, a lane each (0 or -1).
template <int Lanes>
[[gnu::always_inline]] inline void compare_equal(const int32_t* p, int32_t value,
                                                 Vec<int32_t, Lanes>& equal) {
  equal = lanes<Lanes>(p) == value;
}
/// Bytes are not widened, which compilers do badly: lane j looks at byte j % 4 of its word.
template <int Lanes>
[[gnu::always_inline]] inline void compare_equal(const uint8_t* p, int32_t value,
                                                 Vec<int32_t, Lanes>& equal) {
  static_assert(std::endian::native == std::endian::little);
  constexpr uint32_t a = 0xff, b = 0xff00, c = 0xff0000, d = 0xff000000;
  const uint32_t values = static_cast<uint32_t>(value) * 0x01010101U;
  uint32_t w[4] = {};
  std::memcpy(w, p, Lanes);
  if constexpr (Lanes == 16) {
    const Vec<uint32_t, 16> bytes = {a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d};
    const Vec<uint32_t, 16> words = {w[0], w[0], w[0], w[0], w[1], w[1], w[1], w[1],
                                     w[2], w[2], w[2], w[2], w[3], w[3], w[3], w[3]};
    equal = ((words ^ values) & bytes) == 0;
  } else if constexpr (Lanes == 8) {
    const Vec<uint32_t, 8> bytes = {a, b, c, d, a, b, c, d};
    const Vec<uint32_t, 8> words = {w[0], w[0], w[0], w[0], w[1], w[1], w[1], w[1]};
    equal = ((words ^ values) & bytes) == 0;
  } else if constexpr (Lanes == 4) {
    const Vec<uint32_t, 4> bytes = {a, b, c, d};
    const Vec<uint32_t, 4> words = {w[0], w[0], w[0], w[0]};
    equal = ((words ^ values) & bytes) == 0;
  } else {
    static_assert(Lanes == 1);
    equal = Vec<int32_t, 1>{} - static_cast<int32_t>(*p == value);
  }
}

/// Calls op.strip<Lanes>(i) until [0, n) is covered, with Width lanes or, where n is less, fewer.
/// The last call may overlap the one before it: what op computes must not depend on what it wrote.
template <int Width, class Op>
[[gnu::always_inline]] inline void cover(int64_t n, const Op& op) {
  if (n < Width) {
    if constexpr (Width > 4) {
      cover<Width / 2>(n, op);
    } else if constexpr (Width > 1) {
      cover<1>(n, op);
    }
    return;
  }
  int64_t i = 0;
  for (; i + Width <= n; i += Width) op.template strip<Width>(i);
  if (i < n) op.template strip<Width>(n - Width);
}

/// The same without overlaps: what is left over is done with fewer and fewer lanes.
template <int Width, class Op>
[[gnu::always_inline]] inline void cover_once(int64_t n, const Op& op, int64_t from = 0) {
  int64_t i = from;
  for (; i + Width <= n; i += Width) op.template strip<Width>(i);
  if constexpr (Width > 4) {
    if (i < n) cover_once<Width / 2>(n, op, i);
  } else if constexpr (Width > 1) {
    if (i < n) cover_once<1>(n, op, i);
  }
}

}  // namespace crema
