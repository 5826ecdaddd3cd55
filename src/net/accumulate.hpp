// Adds gradients.
#pragma once

#include <span>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// into += the diffs of the blobs in `from`, in their order, on the context's device. There are at
/// most Action::kMostParts blobs. All tensors have the same shape, type (f32, f64 or bf16) and
/// format. A sum of bf16 is computed in f32 and rounded once.
void accumulate(const Context& context, std::span<Blob* const> from, Tensor& into);
/// Sets every element of a diff to `value`, the weight of a loss, or adds it if `adds`. Runs on the
/// context's device; for a diff of one element, which losses read, on the host. Padding stays zero.
void seed(const Context& context, Tensor& diff, double value, bool adds);

}  // namespace crema
