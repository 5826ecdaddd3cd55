#include "core/side.hpp"

namespace crema {
namespace {

/// Calls body(T{}) for the type.
template <class Body>
auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::f16:
      return body(float16{});
    case DType::u8:
      return body(uint8_t{});
    case DType::i32:
      return body(int32_t{});
    case DType::i64:
      break;
  }
  return body(int64_t{});
}

}  // namespace

const std::byte* Side::read_bytes(const Tensor& tensor) const {
  return with_type(tensor.dtype(), [&](auto zero) {
    return reinterpret_cast<const std::byte*>(read<decltype(zero)>(tensor));
  });
}

std::byte* Side::overwrite_bytes(Tensor& tensor) const {
  return with_type(tensor.dtype(), [&](auto zero) {
    return reinterpret_cast<std::byte*>(overwrite<decltype(zero)>(tensor));
  });
}

}  // namespace crema
