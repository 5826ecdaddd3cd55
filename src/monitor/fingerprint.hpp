#pragma once

#include <string>

namespace crema {

/// A text that tells one set of data from another: 16 hexadecimal digits. It takes some
/// milliseconds, however large the data are, and covers:
///
/// - of a file up to 4 MiB, as a list of images, all bytes; of a larger one, its size and bytes of
///   the beginning, the middle and the end. What a list names is not read;
/// - of a folder, as that of a database, the names right in it, and the first 16 of its files as
///   above. What databases change when they are read is left out;
/// - of folders in it, the names within, up to 4,000 entries in all; behind those, the names of the
///   folders alone.
///
/// "" where there is nothing, it cannot be read, or a folder has more than 4,000 entries itself.
std::string data_fingerprint(const std::string& path);

}  // namespace crema
