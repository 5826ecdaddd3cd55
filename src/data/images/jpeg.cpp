#include "data/images/jpeg.hpp"

#include <cstddef>

namespace crema {
namespace {

constexpr unsigned kStartOfImage = 0xd8, kEndOfImage = 0xd9, kStartOfScan = 0xda;

unsigned byte_at(std::string_view file, size_t at) { return static_cast<unsigned char>(file[at]); }

}  // namespace

bool lacks_jpeg_end(std::string_view file) {
  if (file.size() < 4 || byte_at(file, 0) != 0xff || byte_at(file, 1) != kStartOfImage)
    return false;
  // Segments before the first scan may hold anything, a thumbnail with its own end marker too.
  size_t at = 2;
  for (;;) {
    while (at < file.size() && byte_at(file, at) == 0xff) ++at;
    if (at + 2 >= file.size()) return true;
    const unsigned marker = byte_at(file, at);
    if (marker == kStartOfScan) break;
    if (marker == kEndOfImage) return false;
    at += 1 + (byte_at(file, at + 1) << 8 | byte_at(file, at + 2));
    if (at >= file.size()) return true;
    if (byte_at(file, at) != 0xff)
      return false;  // not the syntax known here: for the decoder to say
  }
  // Within a scan 0xff is escaped, so what looks like the end marker is one.
  const size_t end = file.rfind("\xff\xd9");
  return end == std::string_view::npos || end < at;
}

}  // namespace crema
