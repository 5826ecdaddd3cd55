// Image files that records become.
#pragma once

#include <string>
#include <string_view>

#include "data/databases/record_info.hpp"

namespace crema {

struct RecordImage {
  std::string type;  // "jpg", "png", ...
  std::string file;  // its bytes
};

/// A compressed image stays as it is, a raw one becomes PNG, unless `type` is "png" or "jpg".
/// `rgb`: raw records have channels red, green, blue, instead of blue, green, red. Takes the file
/// out of `info`. Error for a record that is no image of 1 or 3 channels, and, in a build without
/// OpenCV, for one that has to be compressed.
RecordImage image_of(RecordInfo& info, const std::string& type, bool rgb);

/// The key without the ending of an image file, and without what a file name cannot have.
std::string file_name_of(std::string_view key);
/// Of the key of a file: its name and the folder that it is in, which may be its class.
std::string_view short_path(std::string_view key);

}  // namespace crema
