// Sums of gradients.
#pragma once

#include <span>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// into += the diffs of all of `from`, at most Action::kMostParts, in their order, on the context's
/// device; same shape, type (f32, f64 or bf16, whose sum is rounded once) and format.
void accumulate(Context& context, std::span<Blob* const> from, Tensor& into);
/// Adds `value` to every element, on the host. The padding of blocked formats stays zero.
void add_to_each(Tensor& tensor, double value);

}  // namespace crema
