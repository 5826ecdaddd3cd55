#include "tools/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "core/parse_number.hpp"

namespace crema::tools {

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
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
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

}  // namespace crema::tools
