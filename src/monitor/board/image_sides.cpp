#include "monitor/board/image_sides.hpp"

namespace crema {
namespace {

/// A number of `bytes` bytes; false where the file ends before.
bool number_at(std::string_view file, size_t at, size_t bytes, bool little_endian, int64_t& out) {
  if (at > file.size() || file.size() - at < bytes) return false;
  out = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const size_t place = little_endian ? at + bytes - 1 - i : at + i;
    out = out << 8 | static_cast<unsigned char>(file[place]);
  }
  return true;
}

std::optional<ImageSides> both(std::string_view file, size_t width_at, size_t height_at,
                               size_t bytes, bool little_endian) {
  ImageSides sides;
  if (!number_at(file, width_at, bytes, little_endian, sides.width) ||
      !number_at(file, height_at, bytes, little_endian, sides.height))
    return std::nullopt;
  return sides;
}

/// The frame header among the segments of a JPEG (ITU T.81, B.1.1).
std::optional<ImageSides> jpeg_sides(std::string_view file) {
  for (size_t at = 2; at + 4 <= file.size();) {
    if (static_cast<unsigned char>(file[at]) != 0xFF) return std::nullopt;
    const auto marker = static_cast<unsigned char>(file[at + 1]);
    if (marker == 0xFF) {  // filling
      ++at;
      continue;
    }
    const bool is_frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame) return both(file, at + 7, at + 5, 2, false);
    int64_t length = 0;
    if (!number_at(file, at + 2, 2, false, length) || length < 2) return std::nullopt;
    at += 2 + static_cast<size_t>(length);
  }
  return std::nullopt;
}

std::optional<ImageSides> webp_sides(std::string_view file) {
  const std::string_view kind = file.substr(12, 4);
  if (kind == "VP8 ") {
    auto sides = both(file, 26, 28, 2, true);
    if (sides) *sides = {sides->width & 0x3FFF, sides->height & 0x3FFF};
    return sides;
  }
  if (kind == "VP8L") {
    int64_t bits = 0;
    if (!number_at(file, 21, 4, true, bits)) return std::nullopt;
    return ImageSides{(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1};
  }
  if (kind == "VP8X") {
    auto sides = both(file, 24, 27, 3, true);
    if (sides) *sides = {sides->width + 1, sides->height + 1};
    return sides;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ImageSides> image_sides(std::string_view file) {
  std::optional<ImageSides> sides;
  if (file.starts_with("\x89PNG\r\n\x1a\n")) {
    sides = both(file, 16, 20, 4, false);
  } else if (file.starts_with("\xFF\xD8\xFF")) {
    sides = jpeg_sides(file);
  } else if (file.starts_with("GIF87a") || file.starts_with("GIF89a")) {
    sides = both(file, 6, 8, 2, true);
  } else if (file.starts_with("BM")) {
    sides = both(file, 18, 22, 4, true);
    if (sides) {
      // Of 32 bits with a sign; rows from top to bottom have a negative height.
      sides->width = static_cast<int32_t>(sides->width);
      sides->height = static_cast<int32_t>(sides->height);
      if (sides->height < 0) sides->height = -sides->height;
    }
  } else if (file.starts_with("RIFF") && file.size() > 16 && file.substr(8, 4) == "WEBP") {
    sides = webp_sides(file);
  }
  return sides && sides->width > 0 && sides->height > 0 ? sides : std::nullopt;
}

}  // namespace crema
