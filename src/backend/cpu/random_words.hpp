// Random words of Philox and what drops elements by them, on one thread of the CPU. apply_words()
// is in f32.
#pragma once

#include <cstdint>

namespace crema {

/// Blocks of Philox that draw_words() makes at a time.
inline constexpr int64_t kWordBlocks = 8;

/// The words of blocks [first, first + count) under a key, in order, eight of 16 bits for each
/// block: of the block's words a, b, c, d the lower half, then the upper. count is a multiple of
/// kWordBlocks.
void draw_words(uint32_t key0, uint32_t key1, int64_t first, int64_t count, uint16_t* words);

/// y = word < threshold ? 0 : x * scale, for rows of n elements. The rows of words follow each
/// other, those of x and y are `stride` apart. y may be x.
void apply_words(const uint16_t* words, uint32_t threshold, float scale, int64_t rows, int64_t n,
                 const float* x, float* y, int64_t stride);

}  // namespace crema
