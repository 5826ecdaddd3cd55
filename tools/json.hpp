// JSON that the tools write.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "core/utf8.hpp"

namespace crema::tools {

/// The text as a JSON string: in quotes, with what may not stand there escaped. A byte that is no
/// UTF-8, as names of files may have, becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = utf8_length(text);
    if (length != 1) {
      json += length == 0 ? "\xEF\xBF\xBD" : text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
      json += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      json += c;
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return json + '"';
}

/// The number in as many digits as it needs; NaN and infinities, which JSON has none of, as null.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

}  // namespace crema::tools
