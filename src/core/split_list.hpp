// Comma-separated lists, as in flags and in the solver's `weights`.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// The parts between commas, without the blanks around them and without empty ones.
inline std::vector<std::string> split_list(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (const size_t first = part.find_first_not_of(kBlank); first != std::string_view::npos)
      parts.emplace_back(part.substr(first, part.find_last_not_of(kBlank) - first + 1));
    begin = end + 1;
  }
  return parts;
}

}  // namespace crema
