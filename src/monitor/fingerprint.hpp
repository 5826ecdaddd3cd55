#pragma once

#include <string>

namespace crema {

/// A text that tells one set of data from another: 16 hexadecimal digits of the names, the sizes
/// and some bytes of the file or folder at `path`, without what databases change when they are
/// read. It is quick, so that a change of a few bytes in the midst of a large file may not be seen.
/// Of a folder, files right in it count with their bytes, others with their names and some of their
/// sizes. "" where there is nothing, or it cannot be read.
std::string data_fingerprint(const std::string& path);

}  // namespace crema
