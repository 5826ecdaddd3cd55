// Tiles of 8 x 8 elements are transposed in registers: pairs of rows are interleaved in units of
// one, two and four elements. The shuffles are those that AVX2 (and, for 16 bits, SSE2) does within
// one instruction. Where a side is not a multiple of the tile's, the last tile overlaps the one
// before it; sides smaller than a tile are copied element by element.
#include "core/transpose.hpp"

#include "core/simd.hpp"

namespace crema {
namespace {

template <class E, int64_t kLanes>
struct VectorOf {
  typedef E Type __attribute__((vector_size(sizeof(E) * kLanes)));
  typedef E InMemory
      __attribute__((vector_size(sizeof(E) * kLanes), aligned(alignof(E)), may_alias));
};
template <class E, int64_t kLanes>
using Vector = typename VectorOf<E, kLanes>::Type;

// In one instruction each. GCC 12 makes two moves of half a vector of memcpy(), and reads what they
// wrote to the stack as a whole, which waits for both.
template <int64_t kLanes, class E>
[[gnu::always_inline]] inline void load(const E* from, Vector<E, kLanes>& to) {
  to = *reinterpret_cast<const typename VectorOf<E, kLanes>::InMemory*>(from);
}
template <int64_t kLanes, class E>
[[gnu::always_inline]] inline void store(const Vector<E, kLanes>& from, E* to) {
  *reinterpret_cast<typename VectorOf<E, kLanes>::InMemory*>(to) = from;
}

// 8 x 8 of 32 bits, in registers of 256 bits: units move within halves of 128 bits first.
template <class E>
[[gnu::always_inline]] inline void transpose_8x8(const E* from, int64_t from_stride, E* to,
                                                 int64_t to_stride) {
  Vector<E, 8> a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) load<8>(from + i * from_stride, a[i]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const auto& upper = b[i + j];
      const auto& lower = b[i + j + 2];
      a[i + 2 * j] = __builtin_shufflevector(upper, lower, 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(upper, lower, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store<8>(b[i], to + i * to_stride);
}

// 8 x 8 of 16 bits, in registers of 128 bits.
[[gnu::always_inline]] inline void transpose_8x8(const uint16_t* from, int64_t from_stride,
                                                 uint16_t* to, int64_t to_stride) {
  Vector<uint16_t, 8> a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) load<8>(from + i * from_stride, a[i]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(b[i], b[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store<8>(b[i], to + i * to_stride);
}

// 4 x 4 of 32 bits, in registers of 128 bits: for processors without AVX2.
template <class E>
[[gnu::always_inline]] inline void transpose_4x4(const E* from, int64_t from_stride, E* to,
                                                 int64_t to_stride) {
  Vector<E, 4> a[4], b[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) load<4>(from + i * from_stride, a[i]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    a[2 * i] = __builtin_shufflevector(b[i], b[i + 2], 0, 4, 1, 5);
    a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 6, 3, 7);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) store<4>(a[i], to + i * to_stride);
}

template <class E>
[[gnu::always_inline]] inline void copy_elements(const E* from, int64_t from_stride, E* to,
                                                 int64_t to_stride, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

template <int64_t kTile, class E>
[[gnu::always_inline]] inline void transpose_tile(const E* from, int64_t from_stride, E* to,
                                                  int64_t to_stride) {
  if constexpr (kTile == 8) {
    transpose_8x8(from, from_stride, to, to_stride);
  } else {
    transpose_4x4(from, from_stride, to, to_stride);
  }
}

/// The first element of tile `number` of a side.
template <int64_t kTile>
[[gnu::always_inline]] inline int64_t tile_begin(int64_t number, int64_t side) {
  return number * kTile + kTile <= side ? number * kTile : side - kTile;
}

// The narrower side, a block of channels, is walked first, as far as a cache line reaches along the
// other side at a time: lines are completed before they are evicted, also where all rows lie in one
// set of the cache. A side of two tiles leaves room for 8 lines of each row; fewer would mean that
// most stores wait for one set, if rows lie a power of two apart.
template <class E, int64_t kTile>
[[gnu::always_inline]] inline void transpose_tiles(const E* from, int64_t from_stride, E* to,
                                                   int64_t to_stride, int64_t rows,
                                                   int64_t columns) {
  if (rows < kTile || columns < kTile)
    return copy_elements(from, from_stride, to, to_stride, rows, columns);
  constexpr int64_t kLine = 64 / sizeof(E) / kTile;  // tiles
  const int64_t down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  const bool by_columns = rows <= columns;
  const int64_t outer = by_columns ? across : down, inner = by_columns ? down : across;
  const int64_t step = inner <= 2 ? 8 * kLine : kLine;
  for (int64_t first = 0; first < outer; first += step) {
    const int64_t last = first + step < outer ? first + step : outer;
    for (int64_t n = 0; n < inner; ++n) {
      for (int64_t o = first; o < last; ++o) {
        const int64_t i = tile_begin<kTile>(by_columns ? n : o, rows);
        const int64_t j = tile_begin<kTile>(by_columns ? o : n, columns);
        transpose_tile<kTile>(from + i * from_stride + j, from_stride, to + j * to_stride + i,
                              to_stride);
      }
    }
  }
}

}  // namespace

template <class E>
void transpose(const E* from, int64_t from_stride, E* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  if constexpr (sizeof(E) == 4) {
    if (simd_level() < SimdLevel::avx2) {
      transpose_tiles<E, 4>(from, from_stride, to, to_stride, rows, columns);
    } else {
      vectorized<transpose_tiles<E, 8>>(from, from_stride, to, to_stride, rows, columns);
    }
  } else if constexpr (sizeof(E) == 2) {
    vectorized<transpose_tiles<E, 8>>(from, from_stride, to, to_stride, rows, columns);
  } else {
    copy_elements(from, from_stride, to, to_stride, rows, columns);
  }
}

template void transpose<uint8_t>(const uint8_t*, int64_t, uint8_t*, int64_t, int64_t, int64_t);
template void transpose<uint16_t>(const uint16_t*, int64_t, uint16_t*, int64_t, int64_t, int64_t);
template void transpose<uint32_t>(const uint32_t*, int64_t, uint32_t*, int64_t, int64_t, int64_t);
template void transpose<float>(const float*, int64_t, float*, int64_t, int64_t, int64_t);
template void transpose<uint64_t>(const uint64_t*, int64_t, uint64_t*, int64_t, int64_t, int64_t);

}  // namespace crema
