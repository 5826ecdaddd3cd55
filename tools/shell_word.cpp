#include "tools/shell_word.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace crema::tools {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "_-./+:@%,=";
  const bool plain = !word.empty() && std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (plain) return word;
  if (word.find_first_of("$`!\"\\") == std::string::npos) return '"' + word + '"';
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace crema::tools
