// From an element type known at run time to a template argument.
#pragma once

#include "crema/error.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// Calls body(float{}) or body(double{}): reference layers compute in either.
template <class Body>
decltype(auto) dispatch_float(DType dtype, const Body& body) {
  if (dtype == DType::f32) return body(float{});
  if (dtype == DType::f64) return body(double{});
  throw Error("a reference layer computes in f32 or f64, not in ", to_string(dtype));
}

/// Calls body with a zero of the element type, one of the floating-point types: kernels of sums and
/// conversions are compiled for these.
template <class Body>
decltype(auto) dispatch_any_float(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::f16:
      return body(float16{});
    default:
      throw Error("sums and conversions are of f32, f64, bf16 and f16, not of ", to_string(dtype));
  }
}

/// The same for any element type.
template <class Body>
decltype(auto) dispatch_any(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::u8:
      return body(uint8_t{});
    case DType::i32:
      return body(int32_t{});
    case DType::i64:
      return body(int64_t{});
    default:
      return dispatch_any_float(dtype, body);
  }
}

}  // namespace crema
