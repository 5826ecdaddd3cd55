// Tops that are ranges of the rows of a wider tensor (Tensor::bind_rows()): how the bottoms of a
// Concat become parts of its top without a copy, where their rows lie apart in it. In
// channels-last memory, a row is the channels of one position.
//
// The net finds the bottoms that nothing else looks at (net/row_ranges.cpp) and asks the kernels
// that make them; net/memory.cpp then plans their data and diffs in those of the whole. One of the
// two may stay dense, and so may both: in nets that drop and recompute values, for instance.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

/// A base of layers whose bottoms, side by side in each row of memory, are their only top.
class JoinsRows {
 public:
  virtual ~JoinsRows() = default;
  /// The rows in the shapes and formats of the last kernel. 0: the layer joins nothing.
  virtual int64_t joined_rows() const = 0;
};

/// A base of kernels that may write a top as such a range.
class WritesRanges {
 public:
  virtual ~WritesRanges() = default;
  /// Whether, from now on, the passes also take data and diff of the top where they are `rows` rows
  /// in the order of memory, which begin `stride` bytes apart. A row may be more than the channels
  /// of a position: along axis 2 of channels-last maps, it is all positions of an image. Rows begin
  /// at multiples of 16 bytes. Once true, it stays so for the same rows. Backward may change the
  /// diff of the top as if it were dense.
  virtual bool take_ranges(size_t top, int64_t rows, size_t stride) = 0;
};

}  // namespace crema
