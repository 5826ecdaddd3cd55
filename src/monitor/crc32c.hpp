// CRC-32C, the cyclic redundancy check with the polynomial of Castagnoli.
#pragma once

#include <cstdint>
#include <string_view>

namespace crema {

uint32_t crc32c(std::string_view bytes);

/// As event files store a checksum: rotated by 15 bits, plus a constant, so that a checksum of
/// bytes that hold checksums is not weak.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace crema
