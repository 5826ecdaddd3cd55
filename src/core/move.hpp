// Moving data, on the side where a layer runs: the host's threads, or a device's kernels.
//
// Elements are of any type except where a function adds. Formats do not matter as long as the
// tensors of a call have the same one: padding is moved, added and cleared like all else.
#pragma once

#include <span>

#include "backend/device.hpp"
#include "core/side.hpp"

namespace crema {

/// to = from, of equal types and sizes; shapes may differ. Nothing happens where both are the same
/// memory.
void copy(const Side& side, const Tensor& from, Tensor& to);

/// sum = the terms, added up in their order; of equal types and sizes, f32, f64 or bf16. Sums of
/// bf16 are rounded once for each DeviceBackend::kMostTerms terms. `sum` may be the first term.
void add(const Side& side, std::span<const Tensor* const> terms, Tensor& sum);

void fill_zero(const Side& side, Tensor& to);

/// Pointers are the side's.
void copy_rows(const Side& side, const RowCopy& copy, const std::byte* from, std::byte* to);

/// Memory of a shape in a format is (rows, all that lies within `axis`): how many rows, so that
/// tensors which differ in that axis alone lie side by side in the rows of a tensor that joins
/// them. In blocked formats, along axis 1 only where no block of channels is padded.
int64_t rows_around(const Shape& shape, Format format, int axis);

}  // namespace crema
