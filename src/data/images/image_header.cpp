#include "data/images/image_header.hpp"

#include <algorithm>
#include <charconv>

#include "data/images/png_header.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

using namespace std::string_view_literals;

constexpr uint32_t kBitsPerSample = 258, kOrientation = 274;

unsigned byte_at(std::string_view file, size_t at) { return static_cast<unsigned char>(file[at]); }

/// "Exif\0\0", which some writers of other formats keep.
std::string_view without_exif_name(std::string_view exif) {
  constexpr auto kName = "Exif\0\0"sv;
  return exif.starts_with(kName) ? exif.substr(kName.size()) : exif;
}

/// The chunk "EXIF" of a WebP file. RIFF: a name of 4 bytes, a size, least significant byte first.
std::string_view webp_exif(std::string_view file) {
  constexpr size_t kFirst = 12, kHead = 8;
  for (size_t at = kFirst; file.size() - std::min(at, file.size()) > kHead;) {
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size |= size_t{byte_at(file, at + 4 + i)} << (8 * i);
    if (file.substr(at, 4) == "EXIF") return file.substr(at + kHead, size);
    at += kHead + size + size % 2;
  }
  return {};
}

/// Bits of the first component in a codestream of JPEG 2000 (ITU-T T.800, annex A.5.1).
int jp2_bits(std::string_view file) {
  constexpr size_t kFirstComponent = 42;
  const size_t at = file.substr(0, 1 << 16).find("\xFF\x4F\xFF\x51"sv);
  if (at == std::string_view::npos || file.size() <= at + kFirstComponent) return 8;
  return static_cast<int>(byte_at(file, at + kFirstComponent) & 0x7f) + 1;
}

/// By the largest value of a gray or colour PNM, its third number.
int pnm_bits(std::string_view file) {
  if (file[1] == '1' || file[1] == '4') return 8;
  size_t at = 2;
  int value = 0;
  for (int number = 0; number < 3; ++number) {
    while (at < file.size() && (byte_at(file, at) <= ' ' || file[at] == '#')) {
      at = file[at] == '#' ? std::min(file.find('\n', at), file.size()) : at + 1;
    }
    const auto [end, error] = std::from_chars(file.data() + at, file.data() + file.size(), value);
    if (error != std::errc()) return 8;
    at = static_cast<size_t>(end - file.data());
  }
  return value > 255 ? 16 : 8;
}

}  // namespace

std::optional<TiffValue> tiff_value(std::string_view tiff, uint32_t tag) {
  constexpr size_t kHead = 8, kEntry = 12;
  constexpr uint32_t kShort = 3, kLong = 4;
  if (tiff.size() < kHead) return std::nullopt;
  const bool little = tiff.starts_with("II*\0"sv);
  if (!little && !tiff.starts_with("MM\0*"sv)) return std::nullopt;
  const auto number = [&](size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value = value << 8 | byte_at(tiff, at + (little ? bytes - 1 - i : i));
    return value;
  };
  const size_t directory = number(4, 4);
  if (directory < kHead || directory > tiff.size() - 2) return std::nullopt;
  const size_t entries = number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (entry + kEntry > tiff.size()) return std::nullopt;
    if (number(entry, 2) != tag) continue;
    const uint32_t type = number(entry + 2, 2), count = number(entry + 4, 4);
    if (count == 0 || (type != kShort && type != kLong)) return std::nullopt;
    const size_t bytes = type == kShort ? 2 : 4;
    // Values that do not fit into 4 bytes lie elsewhere.
    const size_t at = uint64_t{count} * bytes <= 4 ? entry + 8 : number(entry + 8, 4);
    if (at > tiff.size() - bytes) return std::nullopt;
    return TiffValue{
        .number = number(at, bytes), .at = at, .bytes = bytes, .little_endian = little};
  }
  return std::nullopt;
}

Orientation exif_orientation(std::string_view tiff) {
  const auto value = tiff_value(without_exif_name(tiff), kOrientation);
  return Orientation(value && value->number <= 8 ? static_cast<int>(value->number) : 1);
}

std::string_view jpeg_exif(std::string_view file) {
  constexpr unsigned kExifMarker = 0xe1, kStartOfScan = 0xda, kEndOfImage = 0xd9;
  constexpr auto kName = "Exif\0\0"sv;
  for (size_t at = 2;;) {
    // Bytes of 0xff may stand before a marker.
    while (at < file.size() && byte_at(file, at) == 0xff) ++at;
    if (at + 2 >= file.size()) return {};
    const unsigned marker = byte_at(file, at);
    if (marker == kStartOfScan || marker == kEndOfImage) return {};
    const size_t size = byte_at(file, at + 1) << 8 | byte_at(file, at + 2);
    if (size < 2) return {};
    if (marker == kExifMarker) {
      const std::string_view content = file.substr(at + 3, size - 2);
      if (content.starts_with(kName)) return content.substr(kName.size());
    }
    at += 1 + size;
    if (at >= file.size()) return {};
    // Decoders look for the next marker from here on.
    at = std::min(file.find('\xff', at), file.size());
  }
}

ImageHeader read_image_header(std::string_view file) {
  ImageHeader header;
  const std::string_view type = image_type(file);
  if (type == "jpg") {
    header.orientation = exif_orientation(jpeg_exif(file));
  } else if (type == "png") {
    PngHeader png;
    try {
      png = read_png_header(file);
    } catch (const std::exception&) {
      return header;  // the decoder says what is wrong
    }
    header.orientation = png.orientation;
    header.bits = std::max(8, png.bits);
  } else if (type == "webp") {
    header.orientation = exif_orientation(webp_exif(file));
  } else if (type == "tif") {
    if (const auto bits = tiff_value(file, kBitsPerSample))
      header.bits = std::max(8, static_cast<int>(bits->number & 0xff));
    if (const auto value = tiff_value(file, kOrientation)) {
      header.orientation = exif_orientation(file);
      header.orientation_at = value->at;
      header.orientation_bytes = value->bytes;
      header.little_endian = value->little_endian;
    }
  } else if (type == "jp2") {
    header.bits = std::max(8, jp2_bits(file));
  } else if (type == "pnm") {
    header.bits = pnm_bits(file);
  }
  return header;
}

}  // namespace crema
