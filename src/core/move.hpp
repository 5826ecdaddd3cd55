// Functions that move data, on the host or on a device.
//
// Elements have any type, except for add(). All tensors of a call have the same format; padding is
// moved, added and cleared like other elements.
#pragma once

#include <span>

#include "core/device.hpp"
#include "core/side.hpp"

namespace crema {

/// to = from. Both have the same type and size; shapes may differ. Does nothing if both use the
/// same memory.
void copy(const Side& side, const Tensor& from, Tensor& to);

/// sum = the sum of the terms, in their order. All have the same type (f32, f64 or bf16) and size.
/// Sums of bf16 are rounded once for each DeviceBackend::kMostTerms terms. `sum` may be the first
/// term.
void add(const Side& side, std::span<const Tensor* const> terms, Tensor& sum);

void fill_zero(const Side& side, Tensor& to);

/// Sets every element of a contiguous tensor of f32 or f64 to `value`, or adds it to each.
void fill(const Side& side, Tensor& to, double value, bool adds);

/// The pointers are in the memory of the side.
void copy_rows(const Side& side, const RowCopy& copy, const std::byte* from, std::byte* to);

/// The number of rows if memory is seen as (rows, elements of `axis` and of the axes inside it).
/// Tensors that differ in `axis` only are joined along it by joining their rows. Blocked formats
/// along axis 1 need channels without padding.
int64_t rows_around(const Shape& shape, Format format, int axis);

}  // namespace crema
