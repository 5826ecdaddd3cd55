// The target of a request, such as "/run/lenet-1?have=x": its path in segments, and its query.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema {

struct BoardTarget {
  std::vector<std::string> path;                           // decoded; none is empty, "." or ".."
  std::vector<std::pair<std::string, std::string>> query;  // decoded

  /// The first value of a name; "" without one.
  std::string value(std::string_view name) const;
};

/// None for a target that no page has, with the reason in `why`: one that does not begin with '/',
/// is too long, has bytes that have to be encoded, a bad %, an encoded slash or a zero byte, or
/// a segment "." or "..".
std::optional<BoardTarget> parse_target(std::string_view target, std::string& why);

/// The text as one segment of a path, or as a value of a query.
std::string encoded_segment(std::string_view text);
/// The names between slashes, each encoded.
std::string encoded_path(std::string_view path);

}  // namespace crema
