#include "core/xml.hpp"

namespace crema {

std::string xml_escaped(std::string_view text) {
  std::string all;
  for (const char c : text) {
    if (c == '&') {
      all += "&amp;";
    } else if (c == '<') {
      all += "&lt;";
    } else if (c == '>') {
      all += "&gt;";
    } else if (c == '"') {
      all += "&quot;";
    } else {
      all += c;
    }
  }
  return all;
}

}  // namespace crema
