#include "core/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace crema {

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2   ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t code = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  // Longer than needed, halves of UTF-16 pairs, and behind the last character.
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

std::string as_utf8(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    all += length == 0 ? escaped_byte(text[0]) : std::string(text.substr(0, length));
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return all;
}

std::string escaped_byte(char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto code = static_cast<uint8_t>(byte);
  return {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
}

}  // namespace crema
