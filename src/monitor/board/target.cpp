#include "monitor/board/target.hpp"

#include <algorithm>

namespace crema {
namespace {

constexpr size_t kLongestTarget = 16384;  // as long as the choice of some hundred runs

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// None where a % has no two digits behind it.
std::optional<std::string> decoded(std::string_view text, bool plus_is_blank) {
  std::string all;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      all += text[i] == '+' && plus_is_blank ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    all += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return all;
}

/// The text up to the mark, which is taken from `rest` with it.
std::string_view cut_at(std::string_view& rest, char mark) {
  const size_t end = std::min(rest.find(mark), rest.size());
  const std::string_view before = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return before;
}

}  // namespace

std::string BoardTarget::value(std::string_view name) const {
  const auto found = std::ranges::find(query, name, &std::pair<std::string, std::string>::first);
  return found == query.end() ? "" : found->second;
}

std::optional<BoardTarget> parse_target(std::string_view target, std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  if (target.empty() || target[0] != '/') return refuse("the address does not begin with /");
  if (target.size() > kLongestTarget) return refuse("the address is too long");
  if (!std::ranges::all_of(target,
                           [](char c) { return c > ' ' && c < 127 && c != '#' && c != '\\'; }))
    return refuse("the address has characters that have to be written as %xx");
  BoardTarget parsed;
  std::string_view path = cut_at(target, '?');
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::optional<std::string> segment = decoded(cut_at(path, '/'), false);
    if (!segment) return refuse("a % in the address has no two hexadecimal digits behind it");
    if (segment->find('/') != std::string::npos || segment->find('\0') != std::string::npos)
      return refuse("the address has an encoded slash or a zero byte");
    if (segment->empty() || *segment == "." || *segment == "..")
      return refuse("the address has an empty part, . or ..");
    parsed.path.push_back(*segment);
  }
  while (!target.empty()) {
    std::string_view pair = cut_at(target, '&');
    if (pair.empty()) continue;
    const std::optional<std::string> name = decoded(cut_at(pair, '='), true);
    const std::optional<std::string> value = decoded(pair, true);
    if (!name || !value)
      return refuse("a % in the address has no two hexadecimal digits behind it");
    if (value->find('\0') != std::string::npos) return refuse("the address has a zero byte");
    parsed.query.emplace_back(*name, *value);
  }
  return parsed;
}

std::string encoded_segment(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string all;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      all += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      all += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return all;
}

std::string encoded_path(std::string_view path) {
  std::string all;
  while (!path.empty()) {
    const bool is_last = path.find('/') == std::string_view::npos;
    all += encoded_segment(cut_at(path, '/'));
    if (!is_last) all += '/';
  }
  return all;
}

}  // namespace crema
