#include "core/strided.hpp"

#include <algorithm>
#include <array>

#include "core/parallel.hpp"
#include "core/transpose.hpp"

namespace crema {
namespace {

/// The axes of a box without some: which element of `from` and of `to` each index of them means. On
/// the stack: boxes are gathered in every pass.
struct Outer {
  static constexpr int kMostAxes = 64;  // of a simplified box: more than blobs have
  int rank = 0;
  std::array<int64_t, kMostAxes> extents, from_strides, to_strides;  // innermost first

  int64_t count() const {
    int64_t product = 1;
    for (int a = 0; a < rank; ++a) product *= extents[static_cast<size_t>(a)];
    return product;
  }
  void locate(int64_t index, int64_t& from, int64_t& to) const {
    for (size_t a = 0; a < static_cast<size_t>(rank); ++a) {
      const int64_t i = index % extents[a];
      index /= extents[a];
      from += i * from_strides[a];
      to += i * to_strides[a];
    }
  }
};

Outer outer_of(const StridedGather& box, int without) {
  if (box.rank() > Outer::kMostAxes)
    throw Error("boxes of more than ", Outer::kMostAxes, " axes cannot be gathered");
  Outer outer;
  int64_t dense = 1;
  for (int a = box.rank() - 1; a >= 0; --a) {
    const auto k = static_cast<size_t>(a);
    if (a != without && a != box.rank() - 1) {
      const auto at = static_cast<size_t>(outer.rank++);
      outer.extents[at] = box.extents[k];
      outer.from_strides[at] = box.strides[k];
      outer.to_strides[at] = dense;
    }
    dense *= box.extents[k];
  }
  return outer;
}

template <class E>
void copy_row(const E* from, int64_t stride, int64_t count, E* to) {
  if (stride == 1) {
    std::copy_n(from, count, to);
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

/// Rows along the last axis.
template <class E>
void gather_rows(const StridedGather& box, const E* from, E* to) {
  const Outer outer = outer_of(box, -1);
  const int64_t count = box.extents.back(), stride = box.strides.back();
  parallel_for(outer.count(), kElementGrain / count + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t source = box.offset, target = 0;
      outer.locate(row, source, target);
      copy_row(from + source, stride, count, to + target);
    }
  });
}

/// Matrices of the last axis and of axis `along`, whose elements are neighbours in `from`.
template <class E>
void gather_transposed(const StridedGather& box, int along, const E* from, E* to) {
  constexpr int64_t kTile = 64;
  const Outer outer = outer_of(box, along);
  const int64_t rows = box.extents.back(), from_stride = box.strides.back();
  const int64_t columns = box.extents[static_cast<size_t>(along)];
  int64_t to_stride = 1;
  for (int a = along + 1; a < box.rank(); ++a) to_stride *= box.extents[static_cast<size_t>(a)];
  const int64_t row_tiles = (rows + kTile - 1) / kTile,
                column_tiles = (columns + kTile - 1) / kTile;
  const int64_t tiles = row_tiles * column_tiles;
  const int64_t each = std::min(rows, kTile) * std::min(columns, kTile);
  parallel_for(outer.count() * tiles, kElementGrain / each + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t source = box.offset, target = 0;
      outer.locate(i / tiles, source, target);
      const int64_t row = i % tiles / column_tiles * kTile, column = i % column_tiles * kTile;
      transpose(from + source + row * from_stride + column, from_stride,
                to + target + column * to_stride + row, to_stride, std::min(kTile, rows - row),
                std::min(kTile, columns - column));
    }
  });
}

template <class E>
void gather_on_host(const StridedGather& box, const E* from, E* to) {
  if (box.rank() == 0) {
    *to = from[box.offset];
    return;
  }
  // Below this, a matrix is too narrow to be worth more than rows.
  constexpr int64_t kNarrow = 4;
  if (box.strides.back() != 1) {
    for (int a = 0; a + 1 < box.rank(); ++a) {
      const auto k = static_cast<size_t>(a);
      if (box.strides[k] == 1 && box.extents[k] >= kNarrow)
        return gather_transposed(box, a, from, to);
    }
  }
  gather_rows(box, from, to);
}

}  // namespace

int64_t StridedGather::count() const {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

void StridedGather::simplify() {
  StridedGather simple;
  for (size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] == 1) continue;
    const bool continues = simple.rank() > 0 && simple.strides.back() == strides[a] * extents[a];
    if (continues) {
      simple.extents.back() *= extents[a];
      simple.strides.back() = strides[a];
    } else {
      simple.add(extents[a], strides[a]);
    }
  }
  extents = std::move(simple.extents);
  strides = std::move(simple.strides);
}

void gather(const ComputeDevice& device, const StridedGather& box, size_t element_bytes,
            const std::byte* from, std::byte* to) {
  if (box.count() == 0) return;
  if (DeviceBackend* backend = device.backend())
    return backend->gather(box, element_bytes, from, to);
  const auto as = [&](auto element) {
    using E = decltype(element);
    gather_on_host(box, reinterpret_cast<const E*>(from), reinterpret_cast<E*>(to));
  };
  switch (element_bytes) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    case 8:
      return as(uint64_t{});
    default:
      throw Error("elements of ", element_bytes, " bytes cannot be gathered");
  }
}

}  // namespace crema
