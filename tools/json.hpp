// JSON that the tools write.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace crema::tools {

/// The text as a JSON string: in quotes, with what may not stand there escaped.
inline std::string json_string(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
      json += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      json += c;
    }
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
