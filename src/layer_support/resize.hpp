// Tensors that layers keep for their own use.
#pragma once

#include "core/move.hpp"

namespace crema {

/// Makes the tensor one of `count` values of type T, on one axis. Where it is that already, as in
/// one pass after the other, this takes no memory.
template <class T>
void resize(Tensor& tensor, int64_t count) {
  if (tensor.dtype() != dtype_of<T>()) tensor.set_layout(dtype_of<T>(), Format::contiguous);
  if (tensor.shape().rank() != 1 || tensor.count() != count) tensor.reshape(Shape{count});
}

/// The same, and memory of the device for all values, which the caller overwrites.
template <class T>
T* overwrite(const ComputeDevice& device, Tensor& tensor, int64_t count) {
  resize<T>(tensor, count);
  return device.overwrite<T>(tensor);
}

/// Memory of the device for `count` values, a number that changes from pass to pass. The tensor has
/// that many or more, with headroom, so that few passes take memory.
template <class T>
T* overwrite_some(const ComputeDevice& device, Tensor& tensor, int64_t count) {
  const bool fits = tensor.dtype() == dtype_of<T>() && tensor.count() >= count;
  return overwrite<T>(device, tensor, fits ? tensor.count() : count + count / 4);
}

}  // namespace crema
