#include "core/finite.hpp"

#include <cmath>
#include <vector>

namespace crema {

int64_t first_not_finite(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (!std::isfinite(tensor.at(i))) return i;
  }
  return -1;
}

std::string number_word(double value) { return std::isnan(value) ? "nan" : text(value); }

std::string describe_element(const Tensor& tensor, int64_t index) {
  const Shape& shape = tensor.shape();
  std::string content = number_word(tensor.at(index));
  if (shape.rank() == 0) return content;
  std::vector<int64_t> place;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    place.push_back(index / shape.count(axis + 1) % shape[axis]);
  }
  return text(content, " at (", joined(place), ")");
}

}  // namespace crema
