// Dropout's loops on one thread of the CPU, in f32.
#pragma once

#include <cstdint>

namespace crema {

/// y = word < threshold ? 0 : x * scale, for rows of n elements. The rows of words follow each
/// other, those of x and y are `stride` apart. y may be x.
void apply_words(const uint16_t* words, uint32_t threshold, float scale, int64_t rows, int64_t n,
                 const float* x, float* y, int64_t stride);

}  // namespace crema
