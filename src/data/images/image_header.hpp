// What can be told of an image file without decoding it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "data/images/orientation.hpp"

namespace crema {

struct ImageHeader {
  Orientation orientation;
  /// Of a channel, where there are more than 8; else 8. Of several channels, those of the first.
  int bits = 8;
  /// Of a TIFF with an orientation: where its number is, of how many bytes, and in which order.
  size_t orientation_at = 0, orientation_bytes = 0;
  bool little_endian = true;
};

/// Of JPEG (EXIF), PNG (eXIf), WebP (EXIF), TIFF, JPEG 2000 and PNM, told by their first bytes.
/// What is damaged or missing is passed over: the picture is upright then, and of 8 bits.
ImageHeader read_image_header(std::string_view file);

/// A value of the first directory of a TIFF, or of EXIF, which is one: its first number, and where
/// that is. None if the tag is missing or the directory damaged there. TIFF 6.0, section 2.
struct TiffValue {
  uint32_t number = 0;
  size_t at = 0, bytes = 0;
  bool little_endian = true;
};
std::optional<TiffValue> tiff_value(std::string_view tiff, uint32_t tag);
/// The orientation that EXIF says, with or without "Exif\0\0" before it; upright if it says none,
/// or is damaged.
Orientation exif_orientation(std::string_view tiff);
/// EXIF of a JPEG file, from its byte order on; "" if there is none.
std::string_view jpeg_exif(std::string_view file);

/// 32 bits, the most significant byte first. Error-free for 4 bytes at least.
inline uint32_t big_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

}  // namespace crema
