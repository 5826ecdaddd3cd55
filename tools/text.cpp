#include "tools/text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

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

}  // namespace crema::tools
