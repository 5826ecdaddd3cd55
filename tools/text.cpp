#include "tools/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "core/parse_number.hpp"
#include "core/utf8.hpp"

namespace crema::tools {
namespace {

/// The number of the character, which is UTF-8.
char32_t code_of(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  constexpr uint8_t kOfFirst[] = {0x7F, 0x7F, 0x1F, 0x0F, 0x07};  // by length
  char32_t code = first & kOfFirst[character.size()];
  for (const char byte : character.substr(1))
    code = code << 6 | (static_cast<uint8_t>(byte) & 0x3F);
  return code;
}

/// Of the character with which the text, which is not empty, begins.
struct Extent {
  size_t bytes, columns;
};

Extent first_extent(std::string_view text) {
  // Not wcwidth(), which knows these in some locales only.
  constexpr std::pair<char32_t, char32_t> kMarks[] = {
      {0x300, 0x36F},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
      {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
  constexpr std::pair<char32_t, char32_t> kWide[] = {
      {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x4DBF},   {0x4E00, 0xA4CF},
      {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
      {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF},
      {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF},
      {0x20000, 0x3FFFD}};
  const size_t length = utf8_length(text);
  if (length == 0) return {1, 1};
  const char32_t code = code_of(text.substr(0, length));
  const auto holds = [&](const auto& range) { return range.first <= code && code <= range.second; };
  if (std::ranges::any_of(kMarks, holds)) return {length, 0};
  return {length, std::ranges::any_of(kWide, holds) ? 2U : 1U};
}

}  // namespace

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes,
                units[unit]);
  return text;
}

std::optional<size_t> parse_bytes(std::string_view text) {
  const size_t end = text.find_last_of("0123456789.") + 1;
  std::string unit(text.substr(end));
  std::erase(unit, ' ');
  for (char& letter : unit)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"b", 1},         {"kb", 1e3},      {"mb", 1e6},
      {"gb", 1e9}, {"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}};
  const auto known = std::ranges::find(kUnits, unit, [](const auto& entry) { return entry.first; });
  const auto number = parse_number<double>(text.substr(0, end));
  if (known == std::end(kUnits) || !number) return std::nullopt;
  const double bytes = *number * known->second;
  if (!(bytes >= 0 && bytes < 0x1p63)) return std::nullopt;
  return static_cast<size_t>(bytes);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ldh%02ldm", static_cast<long>(whole / 3600),
                  static_cast<long>(whole / 60 % 60));
  } else if (whole >= 60) {
    std::snprintf(text, sizeof text, "%ldm%02lds", static_cast<long>(whole / 60),
                  static_cast<long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%lds", static_cast<long>(whole));
  }
  return text;
}

std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string said;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') said += ',';
    said += digits[i];
  }
  return said;
}

std::string human_value(double value) {
  const double size = std::fabs(value);
  const char* const form = size != 0 && size < 0.001 ? "%.1e" : size < 1000 ? "%.3f" : "%.4g";
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string percent(double share, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f%%", decimals, 100 * share);
  return text;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Extent first = first_extent(text);
    columns += first.columns;
    text.remove_prefix(first.bytes);
  }
  return columns;
}

std::string cut_to(std::string_view text, size_t columns) {
  size_t kept = 0, used = 0;
  while (kept < text.size()) {
    const Extent next = first_extent(text.substr(kept));
    used += next.columns;
    if (used > columns) break;
    kept += next.bytes;
  }
  return std::string(text.substr(0, kept));
}

size_t fitting_fields(const std::vector<std::string>& fields, size_t columns) {
  size_t used = 0, count = 0;
  for (const std::string& field : fields) {
    used += (count > 0 ? 2 : 0) + columns_of(field);
    if (count > 0 && used > columns) break;
    ++count;
  }
  return count;
}

std::vector<std::string> with_sign_of_more(std::vector<std::string> fields, size_t columns) {
  const std::string sign = "...";
  if (fitting_fields(fields, columns) == fields.size()) return fields;
  const size_t taken = sign.size() + 2;
  fields.resize(fitting_fields(fields, columns - std::min(columns, taken)));
  fields.push_back(sign);
  return fields;
}

}  // namespace crema::tools
