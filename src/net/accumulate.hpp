// Sums of gradients.
#pragma once

#include <span>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// into += the diffs of all of `from`, at most Action::kMostParts, in their order, on the context's
/// device; same shape, type (f32, f64 or bf16, whose sum is rounded once) and format.
void accumulate(const Context& context, std::span<Blob* const> from, Tensor& into);
/// Sets every element of a diff to the weight of a loss, or adds that to each, on the context's
/// device; of a diff of one number, which losses read, on the host. Padding stays zero.
void seed(const Context& context, Tensor& diff, double value, bool adds);

}  // namespace crema
