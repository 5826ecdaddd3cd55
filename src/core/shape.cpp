#include "crema/shape.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "crema/error.hpp"

namespace crema {

Shape::Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] < 0) throw Error("shape ", joined(dims_, "x"), ": dimension ", i, " is negative");
  }
}

void Shape::set(int axis, int64_t value) {
  const int index = canonical_axis(axis);
  if (value < 0)
    throw Error("shape ", str(), ": dimension ", index, " cannot become ", value,
                "; dimensions are 0 or more");
  dims_[index] = value;
}

int64_t Shape::count(int first, int last) const {
  if (first < 0 || first > last || last > rank())
    throw Error("shape ", str(), ": no axes [", first, ", ", last, "); its rank is ", rank());
  const auto begin = dims_.begin() + first;
  const auto end = dims_.begin() + last;
  // A dimension of 0 makes the product 0, however large the others are.
  if (std::find(begin, end, 0) != end) return 0;
  int64_t product = 1;
  for (auto dim = begin; dim != end; ++dim) {
    if (__builtin_mul_overflow(product, *dim, &product)) {
      throw Error("shape ", str(),
                  ": its number of elements does not fit 64 bits; use smaller dimensions");
    }
  }
  return product;
}

void Shape::refuse_axis(int axis) const {
  throw Error(
      "axis ", axis, " is outside shape ", str(),
      rank() == 0 ? text("; a scalar has no axes") : text("; use ", -rank(), " to ", rank() - 1));
}

std::string Shape::str() const { return rank() == 0 ? "scalar" : joined(dims_, "x"); }

}  // namespace crema
