// Conversion between element types and memory formats.
//
// Formats differ in which axis runs fastest: space (contiguous) or channels (the others). Tensors
// are cut into panels, (up to 16 channels) x (up to 64 places), which have plain strides in every
// format and fit the innermost cache; a panel is first converted in type, where the types differ,
// then copied or transposed into place.
#include "core/convert.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

constexpr int64_t kPanelPlaces = 64;
constexpr int64_t kMaxBlock = 16;
// Elements that are worth a thread of their own.
constexpr int64_t kGrain = 32768;

template <class To, class From>
[[gnu::always_inline]] inline void convert_matrix(const From* from, int64_t from_stride, To* to,
                                                  int64_t to_stride, int64_t rows,
                                                  int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const From* source = from + row * from_stride;
    To* target = to + row * to_stride;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) target[i] = convert_value<To>(source[i]);
  }
}

/// A matrix of elements; rows lie `stride` elements apart.
struct Rows {
  DType dtype;
  void* data;
  int64_t stride;
};

void convert_rows(int64_t rows, int64_t columns, const Rows& from, const Rows& to) {
  dispatch_any(from.dtype, [&](auto from_zero) {
    dispatch_any(to.dtype, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* source = static_cast<const From*>(from.data);
      To* target = static_cast<To*>(to.data);
      // Conversions between floating point types are worth a version for each vector width.
      if constexpr (!std::is_integral_v<From> && !std::is_integral_v<To>) {
        vectorized<convert_matrix<To, From>>(source, from.stride, target, to.stride, rows, columns);
      } else {
        convert_matrix<To, From>(source, from.stride, target, to.stride, rows, columns);
      }
    });
  });
}

/// The order of a tensor's elements in memory, in the simplest format that has it.
struct Order : ElementOrder {
  Order(const Shape& shape, Format wanted)
      : ElementOrder(shape, wanted), batch(shape.dim_or_1(0)), format(wanted) {
    const ElementOrder contiguous(shape, Format::contiguous);
    if (!same_as(contiguous)) return;
    format = Format::contiguous;
    static_cast<ElementOrder&>(*this) = contiguous;
  }

  /// As in ElementOrder; without divisions, which show in small tensors, where none are needed.
  int64_t index(int64_t n, int64_t c, int64_t place) const {
    if (format == Format::contiguous) return (n * channels + c) * places + place;
    if (format == Format::channels_last) return (n * places + place) * channels + c;
    return ElementOrder::index(n, c, place);
  }

  bool channels_fastest() const { return format != Format::contiguous; }
  int64_t channel_step() const { return channels_fastest() ? 1 : places; }

  int64_t batch;
  Format format;
};

// Tiles of 8 x 8 elements are transposed in registers: pairs of rows are interleaved in units of
// one, two and four elements. The shuffles are those that AVX2 (and, for 16 bits, SSE2) does within
// one instruction; what does not fill a tile is copied element by element.

template <class E, int64_t kLanes>
struct VectorOf {
  typedef E Type __attribute__((vector_size(sizeof(E) * kLanes)));
};
template <class E, int64_t kLanes>
using Vector = typename VectorOf<E, kLanes>::Type;

template <class V, class E>
[[gnu::always_inline]] inline void load(const E* from, V& to) {
  std::memcpy(&to, from, sizeof(V));
}
template <class V, class E>
[[gnu::always_inline]] inline void store(const V& from, E* to) {
  std::memcpy(to, &from, sizeof(V));
}

// 8 x 8 of 32 bits, in registers of 256 bits: units move within halves of 128 bits first.
[[gnu::always_inline]] inline void transpose_8x8(const uint32_t* from, int64_t from_stride,
                                                 uint32_t* to, int64_t to_stride) {
  Vector<uint32_t, 8> a[8], b[8];
  for (int i = 0; i < 8; ++i) load(from + i * from_stride, a[i]);
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const auto& upper = b[i + j];
      const auto& lower = b[i + j + 2];
      a[i + 2 * j] = __builtin_shufflevector(upper, lower, 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(upper, lower, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) store(b[i], to + i * to_stride);
}

// 8 x 8 of 16 bits, in registers of 128 bits.
[[gnu::always_inline]] inline void transpose_8x8(const uint16_t* from, int64_t from_stride,
                                                 uint16_t* to, int64_t to_stride) {
  Vector<uint16_t, 8> a[8], b[8];
  for (int i = 0; i < 8; ++i) load(from + i * from_stride, a[i]);
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(b[i], b[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; ++i) store(b[i], to + i * to_stride);
}

// 4 x 4 of 32 bits, in registers of 128 bits: for processors without AVX2.
[[gnu::always_inline]] inline void transpose_4x4(const uint32_t* from, int64_t from_stride,
                                                 uint32_t* to, int64_t to_stride) {
  Vector<uint32_t, 4> a[4], b[4];
  for (int i = 0; i < 4; ++i) load(from + i * from_stride, a[i]);
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    a[2 * i] = __builtin_shufflevector(b[i], b[i + 2], 0, 4, 1, 5);
    a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 6, 3, 7);
  }
  for (int i = 0; i < 4; ++i) store(a[i], to + i * to_stride);
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

// The narrower side, a block of channels, is walked first: that completes the cache lines which lie
// across it before they are evicted.
template <class E, int64_t kTile>
[[gnu::always_inline]] inline void transpose_tiles(const E* from, int64_t from_stride, E* to,
                                                   int64_t to_stride, int64_t rows,
                                                   int64_t columns) {
  const int64_t whole_rows = rows - rows % kTile;
  const int64_t whole_columns = columns - columns % kTile;
  if (rows <= columns) {
    for (int64_t j = 0; j < whole_columns; j += kTile) {
      for (int64_t i = 0; i < whole_rows; i += kTile) {
        transpose_tile<kTile>(from + i * from_stride + j, from_stride, to + j * to_stride + i,
                              to_stride);
      }
    }
  } else {
    for (int64_t i = 0; i < whole_rows; i += kTile) {
      for (int64_t j = 0; j < whole_columns; j += kTile) {
        transpose_tile<kTile>(from + i * from_stride + j, from_stride, to + j * to_stride + i,
                              to_stride);
      }
    }
  }
  copy_elements(from + whole_columns, from_stride, to + whole_columns * to_stride, to_stride,
                whole_rows, columns - whole_columns);
  copy_elements(from + whole_rows * from_stride, from_stride, to + whole_rows, to_stride,
                rows - whole_rows, columns);
}

/// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
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

/// One panel on one side.
struct Panel {
  void* data;
  int64_t channel_step, place_step;
};

template <class E>
void move_panel(int64_t channels, int64_t padded, int64_t places, const Panel& from,
                const Panel& to) {
  const E* source = static_cast<const E*>(from.data);
  E* target = static_cast<E*>(to.data);
  const bool transposed = (from.channel_step == 1) != (to.channel_step == 1);
  if (!transposed) {
    for (int64_t s = 0; s < places; ++s) {
      std::memcpy(target + s * to.place_step, source + s * from.place_step, channels * sizeof(E));
    }
  } else if (to.channel_step == 1) {
    transpose(source, from.channel_step, target, to.place_step, channels, places);
  } else {
    transpose(source, from.place_step, target, to.channel_step, places, channels);
  }
  if (padded == channels) return;
  for (int64_t s = 0; s < places; ++s) {
    std::fill_n(target + s * to.place_step + channels, padded - channels, E{0});
  }
}

template <class E>
class Mover {
 public:
  Mover(const Order& from, DType from_dtype, const void* from_data, const Order& to, DType to_dtype,
        void* to_data)
      : from_(from),
        to_(to),
        from_dtype_(from_dtype),
        to_dtype_(to_dtype),
        from_data_(static_cast<const char*>(from_data)),
        to_data_(static_cast<E*>(to_data)) {
    const bool by_8 = from.format == Format::blocked8 || to.format == Format::blocked8;
    group_ = by_8 ? 8 : kMaxBlock;
    // Padding of the target beyond the last channel of the source is a group of its own.
    groups_ = (to.blocks() * to.block + group_ - 1) / group_;
    chunks_ = (from.places + kPanelPlaces - 1) / kPanelPlaces;
    places_first_ = from.format != Format::channels_last && to.format != Format::channels_last;
  }

  void run() const {
    const int64_t panels = from_.batch * groups_ * chunks_;
    parallel_for(panels, kGrain / (group_ * kPanelPlaces), [this](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        // Neighbouring panels share pages: along space, or along channels where these run fastest.
        const int64_t n = panel / (groups_ * chunks_);
        const int64_t rest = panel % (groups_ * chunks_);
        const int64_t group = places_first_ ? rest / chunks_ : rest % groups_;
        const int64_t chunk = places_first_ ? rest % chunks_ : rest / groups_;
        move(n, group * group_, chunk * kPanelPlaces);
      }
    });
  }

 private:
  void move(int64_t n, int64_t c, int64_t s) const {
    const int64_t channels = std::clamp<int64_t>(from_.channels - c, 0, group_);
    const int64_t places = std::min(kPanelPlaces, from_.places - s);
    const int64_t padded = block_of(to_.format) > 1 ? group_ : channels;
    const char* source = from_data_ + from_.index(n, channels > 0 ? c : 0, s) *
                                          static_cast<int64_t>(size_of(from_dtype_));
    Panel from{const_cast<char*>(source), from_.channel_step(), from_.block};
    alignas(64) E converted[kMaxBlock * kPanelPlaces];
    if (from_dtype_ != to_dtype_) {
      if (from_.channels_fastest()) {
        convert_rows(places, channels, {from_dtype_, from.data, from.place_step},
                     {to_dtype_, converted, kMaxBlock});
        from = {converted, 1, kMaxBlock};
      } else {
        convert_rows(channels, places, {from_dtype_, from.data, from.channel_step},
                     {to_dtype_, converted, kPanelPlaces});
        from = {converted, kPanelPlaces, 1};
      }
    }
    const Panel to{to_data_ + to_.index(n, c, s), to_.channel_step(), to_.block};
    move_panel<E>(channels, padded, places, from, to);
  }

  const Order& from_;
  const Order& to_;
  DType from_dtype_, to_dtype_;
  const char* from_data_;
  E* to_data_;
  int64_t group_, groups_, chunks_;
  bool places_first_;
};

/// Converts `count` elements side by side.
void convert_elements(int64_t count, DType from_dtype, const void* from, DType to_dtype, void* to) {
  const auto from_size = static_cast<int64_t>(size_of(from_dtype));
  const auto to_size = static_cast<int64_t>(size_of(to_dtype));
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    const char* source = static_cast<const char*>(from) + begin * from_size;
    char* target = static_cast<char*>(to) + begin * to_size;
    if (from_dtype == to_dtype) {
      std::memcpy(target, source, (end - begin) * from_size);
    } else {
      convert_rows(1, end - begin, {from_dtype, const_cast<char*>(source), 0},
                   {to_dtype, target, 0});
    }
  });
}

}  // namespace

void convert(const Shape& shape, DType from_dtype, Format from_format, const void* from,
             DType to_dtype, Format to_format, void* to) {
  const Order source(shape, from_format);
  const Order target(shape, to_format);
  if (source.format == target.format) {
    convert_elements(storage_count(shape, to_format), from_dtype, from, to_dtype, to);
    return;
  }
  const auto run = [&](auto element) {
    Mover<decltype(element)>(source, from_dtype, from, target, to_dtype, to).run();
  };
  switch (size_of(to_dtype)) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

void fill_elements(const Shape& shape, DType dtype, Format format, double value, void* to) {
  const ElementOrder order(shape, format);
  const int64_t count = storage_count(shape, format);
  dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const data = static_cast<T*>(to);
    const T element = convert_value<T>(value);
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      std::fill(data + begin, data + end, element);
      if (count == shape.count()) return;
      for (int64_t i = begin; i < end; ++i) {
        if (order.channel_of(i) >= order.channels) data[i] = T{};
      }
    });
  });
}

double element_as_double(DType dtype, const void* data, int64_t index) {
  return dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    return convert_value<double>(static_cast<const T*>(data)[index]);
  });
}

}  // namespace crema
