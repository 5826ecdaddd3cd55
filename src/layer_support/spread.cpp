#include "layer_support/spread.hpp"

#include "layer_support/passes.hpp"

namespace crema {

Shape broadcast_shape(Blobs bottoms) {
  int rank = 0;
  for (const Blob* blob : bottoms) rank = std::max(rank, blob->shape().rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  for (const Blob* blob : bottoms) {
    const Shape& shape = blob->shape();
    for (int a = 0; a < shape.rank(); ++a) {
      int64_t& size = dims[static_cast<size_t>(rank - shape.rank() + a)];
      if (shape[a] == 1 || shape[a] == size) continue;
      if (size != 1) {
        std::string shapes;
        for (const Blob* each : bottoms) {
          shapes +=
              text(shapes.empty() ? "" : ", ", "'", each->name, "' (", each->shape().str(), ")");
        }
        throw Error(shapes, " do not broadcast: axis ", a - shape.rank(), " has ", size, " and ",
                    shape[a], " elements; sizes have to be equal, or 1");
      }
      size = shape[a];
    }
  }
  return Shape(std::move(dims));
}

std::vector<int64_t> spread_strides(const Shape& operand, const Shape& whole) {
  std::vector<int64_t> strides(static_cast<size_t>(whole.rank()), 0);
  const int missing = whole.rank() - operand.rank();
  int64_t stride = 1;
  for (int a = operand.rank() - 1; a >= 0; --a) {
    if (operand[a] != 1) strides[static_cast<size_t>(missing + a)] = stride;
    stride *= operand[a];
  }
  return strides;
}

void refuse_spread(const Shape& whole) {
  throw Error("operands that broadcast to ", whole.str(), " repeat along axes in more than ",
              kSpreadAxes, " groups; reshape them before");
}

}  // namespace crema
