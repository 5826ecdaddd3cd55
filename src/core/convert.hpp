// Conversion of whole tensors between element types and memory formats, on the host.
#pragma once

#include "crema/tensor.hpp"

namespace crema {

/// Writes to `to` (in its type and format, padding zeroed) the values of `from`. The two do not
/// overlap. Floating point values become integers by truncation, clamped to the integer's range,
/// NaN as 0; integers are clamped as well.
void convert(const Shape& shape, DType from_dtype, Format from_format, const void* from,
             DType to_dtype, Format to_format, void* to);

/// Sets all elements to `value`, padding to zero.
void fill_elements(const Shape& shape, DType dtype, Format format, double value, void* to);

/// Where in memory the element of logical (contiguous) number `index` lies, counted in elements.
int64_t memory_index(const Shape& shape, Format format, int64_t index);

double element_as_double(DType dtype, const void* data, int64_t index);

}  // namespace crema
