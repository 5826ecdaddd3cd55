// Tensors that layers keep for their own use.
#pragma once

#include "crema/tensor.hpp"

namespace crema {

/// Makes the tensor one of `count` values of type T, on one axis. Where it is that already, as in
/// one pass after the other, this takes no memory.
template <class T>
void resize(Tensor& tensor, int64_t count) {
  if (tensor.dtype() != dtype_of<T>()) tensor.set_layout(dtype_of<T>(), Format::contiguous);
  if (tensor.shape().rank() != 1 || tensor.count() != count) tensor.reshape(Shape{count});
}

}  // namespace crema
