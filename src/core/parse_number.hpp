// Numbers in texts of users and files.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace crema {

/// The number that the whole text is, in decimal and in the C locale: without blanks, and without
/// '+'. None for other texts, and for a number that T cannot hold. For floats, "nan" and "inf" are
/// numbers.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace crema
