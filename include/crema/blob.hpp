// Blob: what flows between layers: values (data) and the gradient of the loss in them (diff).
#pragma once

#include <span>
#include <string>

#include "crema/tensor.hpp"

namespace crema {

struct Blob {
  std::string name;
  Tensor data;
  Tensor diff;  // same shape as data; has memory only where backward needs it

  Blob() = default;
  explicit Blob(std::string blob_name) : name(std::move(blob_name)) {}
  explicit Blob(const Shape& shape, DType dtype = DType::f32)
      : data(shape, dtype), diff(shape, dtype) {}

  const Shape& shape() const { return data.shape(); }
  int64_t count() const { return data.count(); }
  void reshape(const Shape& shape) {
    data.reshape(shape);
    diff.reshape(shape);
  }
  void set_layout(const Layout& layout) {
    data.set_layout(layout.dtype, layout.format);
    diff.set_layout(layout.dtype, layout.format);
  }
};

/// The bottoms or tops of a layer, in the order of the prototxt.
using Blobs = std::span<Blob* const>;

}  // namespace crema
