// Parts of a tensor, joined or cut by one pass of a device (layer_support/parts.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/move.hpp"

namespace crema {

/// Rows of a part lie one behind the other in the part, and at byte `offset` of the rows of the
/// whole.
struct PartRows {
  std::byte* part;
  int64_t bytes;  // of a row
  int64_t offset;
};

/// Copies `rows` rows of all parts to the whole, or from it. The parts do not overlap; the whole,
/// whose rows have `row_bytes`, may have others beside them.
void copy_parts(const ComputeDevice& device, const std::vector<PartRows>& parts, int64_t rows,
                int64_t row_bytes, std::byte* whole, bool joins);

}  // namespace crema
