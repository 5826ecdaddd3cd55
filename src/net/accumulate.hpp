// Adds gradients.
#pragma once

#include <span>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// into = the sum of the diffs of the parts, in their order, on the context's device. `into` may be
/// the diff of the first part. All tensors have the same shape, type (f32, f64 or bf16) and format.
void accumulate(const Context& context, std::span<Blob* const> parts, Tensor& into);
/// Sets every element of a diff to `value`, the weight of a loss, or adds it if `adds`. Runs on the
/// context's device; for a diff of one element, which losses read, on the host. Padding stays zero.
void seed(const Context& context, Tensor& diff, double value, bool adds);

}  // namespace crema
