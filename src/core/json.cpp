#include "core/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/utf8.hpp"

namespace crema {
namespace {

template <class T>
std::string shortest(T value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

}  // namespace

std::string json_string(std::string_view text) {
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

std::string json_number(double value) { return shortest(value); }
std::string json_number(float value) { return shortest(value); }

}  // namespace crema
