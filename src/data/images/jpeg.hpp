// What can be told of a JPEG file without decoding it.
#pragma once

#include <string_view>

namespace crema {

/// Whether `file` begins as a JPEG and ends before its end-of-image marker. Marker syntax: ITU-T
/// T.81, annex B.
bool lacks_jpeg_end(std::string_view file);

}  // namespace crema
