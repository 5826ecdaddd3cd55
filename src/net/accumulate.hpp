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
void accumulate(Context& context, std::span<Blob* const> from, Tensor& into);
/// Adds `value` to every element, on the host. The padding of blocked formats stays zero.
void add_to_each(Tensor& tensor, double value);

}  // namespace crema
