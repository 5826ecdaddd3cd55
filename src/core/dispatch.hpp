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

}  // namespace crema
