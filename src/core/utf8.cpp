#include "core/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace crema {
namespace {

/// How a control character, of one byte or (U+0080 to U+009F) of two, is written.
std::string escaped_control(std::string_view character) {
  const char letter = character.size() == 1 ? escape_letter(character[0]) : '\0';
  if (letter != '\0') return {'\\', letter};
  std::string all;
  for (const char byte : character) all += escaped_byte(byte);
  return all;
}

/// Whether the character, which is UTF-8, is a control character of ASCII or of Latin 1: both steer
/// terminals.
bool is_control(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
}

/// `keeps_break(rest)`: whether a line break stays that `rest` follows.
template <class KeepsBreak>
std::string without_controls(std::string_view text, const KeepsBreak& keeps_break) {
  std::string all;
  all.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(1, length));
    text.remove_prefix(character.size());
    if (length == 0) {
      all += escaped_byte(character[0]);
    } else if (is_control(character) && !(character == "\n" && keeps_break(text))) {
      all += escaped_control(character);
    } else {
      all += character;
    }
  }
  return all;
}

}  // namespace

char escape_letter(char control) {
  constexpr std::string_view kControls = "\a\b\t\n\v\f\r", kLetters = "abtnvfr";
  const size_t at = kControls.find(control);
  return at == std::string_view::npos ? '\0' : kLetters[at];
}

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

std::string printable(std::string_view text) {
  return without_controls(text, [](std::string_view) { return false; });
}

std::string printable_message(std::string_view text) {
  return without_controls(text, [](std::string_view rest) { return rest.starts_with("  "); });
}

std::string drawable(std::string_view text) {
  std::string all = printable(text);
  for (const std::string_view no_character : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (size_t at = 0; (at = all.find(no_character, at)) != std::string::npos;) {
      all.replace(at, no_character.size(), "\xEF\xBF\xBD");
    }
  }
  return all;
}

}  // namespace crema
