// The extent of a tensor, in logical order N, C, (D,) H, W whatever the memory format is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace crema {

/// 64-bit dimensions, none negative. A product that does not fit 64 bits is an Error. A shape of
/// rank 0 is a scalar and has one element.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::vector<int64_t>(dims)) {}
  explicit Shape(std::vector<int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  const std::vector<int64_t>& dims() const { return dims_; }

  /// Dimension `axis`; negative axes count from the end. Error when there is no such axis.
  int64_t operator[](int axis) const { return dims_[canonical_axis(axis)]; }
  /// As operator[], but 1 where the shape has no such axis: N, C, H, W of shapes of lower rank.
  int64_t dim_or_1(int axis) const { return axis < rank() ? dims_[axis] : 1; }
  void set(int axis, int64_t value);

  /// Number of elements of all axes, or of the axes [first, last).
  int64_t count() const { return count(0, rank()); }
  int64_t count(int first) const { return count(first, rank()); }
  int64_t count(int first, int last) const;

  /// `axis` counted from the front; Error when outside [-rank, rank).
  int canonical_axis(int axis) const {
    if (axis < -rank() || axis >= rank()) refuse_axis(axis);
    return axis < 0 ? axis + rank() : axis;
  }

  /// "64x3x28x28"; "scalar" for rank 0.
  std::string str() const;

  bool operator==(const Shape&) const = default;

 private:
  [[noreturn]] void refuse_axis(int axis) const;

  std::vector<int64_t> dims_;
};

}  // namespace crema
