// Lists of image files with labels, a line each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

struct ListedImage {
  std::string file;
  int32_t label = 0;
  int64_t line = 0;  // in the list, from 1
};

/// Reads lines "file label", split at the last white space after trimming, so names may hold
/// blanks; empty lines are passed over. Error, naming the line, for one without a whole number at
/// its end; and for a list that is missing or has no line.
std::vector<ListedImage> read_image_list(const std::string& path);

}  // namespace crema
