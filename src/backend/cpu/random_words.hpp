// Random words for loops that draw a number for each element, on one thread of the CPU.
#pragma once

#include <cstdint>

namespace crema {

/// Blocks of Philox (core/philox.hpp) that draw_words() makes at a time.
inline constexpr int64_t kWordBlocks = 8;

/// The words of blocks [first, first + count) under a key, in order, eight of 16 bits for each
/// block: of the block's words a, b, c, d the lower half, then the upper. count is a multiple of
/// kWordBlocks.
void draw_words(uint32_t key0, uint32_t key1, int64_t first, int64_t count, uint16_t* words);

}  // namespace crema
