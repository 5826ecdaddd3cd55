// Comma-separated lists, as in flags and in the solver's `weights`.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// The parts between commas, without empty ones.
inline std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace crema
