// Rows at places that are known in a pass: copies of rows, and sums of rows.
//
// Sources that call the functions include layer_support/passes.hpp themselves, so that nvcc
// compiles them.
#pragma once

#include <cstring>

#include "crema/blob.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/row_indices.hpp"

namespace crema {

/// Elements of an item in memory: the batch is the outermost axis in all formats. 0 without items.
inline int64_t item_width(const Blob& blob) {
  const int64_t items = blob.shape()[0];
  return items == 0 ? 0 : blob.data.storage() / items;
}

/// Row i of a dense tensor (rows, width) corresponds to the elements from stride * place[i] on of
/// another one.
struct RowPlaces {
  const int64_t* place;
  int64_t rows, width, stride;
};

/// Gathers rows into the dense tensor `to`, or scatters those of the dense tensor `from`.
template <class E>
struct CopyPlacedRows {
  RowPlaces at;
  int64_t parts;  // of a row
  bool gathers;
  const E* from;
  E* to;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / parts, first = first_of(i % parts);
      const int64_t count = first_of(i % parts + 1) - first;
      std::memcpy(to + to_of(row) + first, from + from_of(row) + first,
                  static_cast<size_t>(count) * sizeof(E));
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t row = i / parts, end = first_of(i % parts + 1);
    for (int64_t k = first_of(i % parts) + lanes.first; k < end; k += lanes.count) {
      to[to_of(row) + k] = from[from_of(row) + k];
    }
  }

 private:
  CREMA_FUNCTOR int64_t first_of(int64_t part) const { return at.width * part / parts; }
  CREMA_FUNCTOR int64_t dense(int64_t row) const { return row * at.width; }
  CREMA_FUNCTOR int64_t placed(int64_t row) const { return at.place[row] * at.stride; }
  CREMA_FUNCTOR int64_t from_of(int64_t row) const { return gathers ? placed(row) : dense(row); }
  CREMA_FUNCTOR int64_t to_of(int64_t row) const { return gathers ? dense(row) : placed(row); }
};

template <class E>
void copy_placed_rows(const ComputeDevice& device, const RowPlaces& at, bool gathers, const E* from,
                      E* to) {
  if (at.rows == 0 || at.width == 0) return;
  // Long rows are shared out among threads too.
  const int64_t parts = std::max<int64_t>(at.width / kElementGrain, 1);
  AxisSplit split;
  split.outer = at.rows * parts;
  split.size = at.width / parts;
  for_each_position(device, split, kElementGrain, CopyPlacedRows<E>{at, parts, gathers, from, to});
}

/// Row i of `to` = the row of `from` at its place.
template <class E>
void gather_rows(const ComputeDevice& device, const RowPlaces& at, const E* from, E* to) {
  copy_placed_rows(device, at, true, from, to);
}
/// The row of `to` at its place = row i of `from`. No two places overlap.
template <class E>
void scatter_rows(const ComputeDevice& device, const RowPlaces& at, const E* from, E* to) {
  copy_placed_rows(device, at, false, from, to);
}

/// See sum_rows().
template <class T, class In>
struct SumRows {
  static constexpr int64_t kColumns = 256;  // of a block
  RowGroups groups;
  int64_t width, blocks;
  bool adds;
  In from;
  T* to;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / blocks, first = i % blocks * kColumns;
      const int64_t count = std::min(kColumns, width - first);
      T* const sum = to + groups.row[group] * width + first;
      std::array<double, kColumns> sums{};
      for (int64_t k = 0; adds && k < count; ++k) sums[static_cast<size_t>(k)] = double(sum[k]);
      for (int64_t j = groups.begins[group]; j < groups.begins[group + 1]; ++j) {
        const T* const row = from + groups.order[j] * width + first;
        for (int64_t k = 0; k < count; ++k) sums[static_cast<size_t>(k)] += double(row[k]);
      }
      for (int64_t k = 0; k < count; ++k) sum[k] = static_cast<T>(sums[static_cast<size_t>(k)]);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t group = i / blocks, first = i % blocks * kColumns;
    if (!groups.is_group(group)) return;
    const int64_t end = first + kColumns < width ? first + kColumns : width;
    for (int64_t k = first + lanes.first; k < end; k += lanes.count) {
      T* const at = to + groups.row[group] * width + k;
      double sum = adds ? static_cast<double>(*at) : 0;
      for (int64_t j = groups.first(group); groups.has(group, j); ++j) {
        sum += static_cast<double>(from[groups.order[j] * width + k]);
      }
      *at = static_cast<T>(sum);
    }
  }
};

/// Row row[g] of `to` = the sum of the rows of `from` in group g, or grows by that if `adds`. Rows
/// of `to` without a group stay as they are. In double, in the order of the positions. `In` is a
/// pointer, or on a device ValuesIn<T>.
template <class Side, class In, class T>
void sum_rows(const Side& device, const RowGroups& groups, int64_t width, bool adds, In from,
              T* to) {
  if (groups.count == 0 || width == 0) return;
  using Sum = SumRows<T, In>;
  const int64_t blocks = (width + Sum::kColumns - 1) / Sum::kColumns;
  AxisSplit split;
  split.outer = groups.count * blocks;
  split.size = std::min(width, Sum::kColumns);
  for_each_position(device, split, kPassGrain, Sum{groups, width, blocks, adds, from, to});
}

}  // namespace crema
