// Lists of images with a file beside each: a label map, or a file of boxes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema {

struct ListedPair {
  std::string image, beside;
  int64_t line = 0;  // in the list, from 1
};

/// Reads lines "image file". A line is split at its last white space after trimming, so the name of
/// the image may hold blanks. Empty lines are passed over. Error, naming the line, for one without
/// a second name, unless that `may_miss`; and for a list that is missing or has no line. `entries`
/// says what a line holds, such as "lines 'image labelmap'".
std::vector<ListedPair> read_pair_list(const std::string& path, const std::string& entries,
                                       bool may_miss = false);

}  // namespace crema
