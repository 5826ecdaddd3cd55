// StridedGather: the elements of a tensor in another order: permutation of axes, reversal, blocks
// of axes that change places. Elements have any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/move.hpp"

namespace crema {

/// A box of elements: element (i0, i1, ...) lies at offset + i0 * strides[0] + i1 * strides[1] +
/// ... in memory. Strides are in elements; they may be negative or 0.
struct StridedGather {
  std::vector<int64_t> extents, strides;
  int64_t offset = 0;

  void add(int64_t extent, int64_t stride) {
    extents.push_back(extent);
    strides.push_back(stride);
  }
  int rank() const { return static_cast<int>(extents.size()); }
  int64_t count() const;
  /// Removes axes of extent 1, and joins axes that one stride walks through.
  void simplify();
  /// Whether the elements lie one behind the other, in order. For a simplified one.
  bool is_copy() const { return rank() == 0 || (rank() == 1 && strides[0] == 1); }
};

/// `to`, dense, becomes the elements of the box in `from`, the last axis fastest. The box is
/// simplified. The pointers are in the memory of the device and do not overlap.
void gather(const ComputeDevice& device, const StridedGather& box, size_t element_bytes,
            const std::byte* from, std::byte* to);

}  // namespace crema
