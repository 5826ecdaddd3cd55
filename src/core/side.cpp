#include "core/side.hpp"

#include "core/dispatch.hpp"

namespace crema {

const std::byte* Side::read_bytes(const Tensor& tensor) const {
  return dispatch_any(tensor.dtype(), [&](auto zero) {
    return reinterpret_cast<const std::byte*>(read<decltype(zero)>(tensor));
  });
}

std::byte* Side::overwrite_bytes(Tensor& tensor) const {
  return dispatch_any(tensor.dtype(), [&](auto zero) {
    return reinterpret_cast<std::byte*>(overwrite<decltype(zero)>(tensor));
  });
}

}  // namespace crema
