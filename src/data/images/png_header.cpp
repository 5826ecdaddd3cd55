#include "data/images/png_header.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "crema/error.hpp"
#include "data/images/image_header.hpp"

namespace crema {
namespace {

constexpr size_t kMark = 8, kHead = 8, kCheck = 4;  // bytes of the file's mark, of a chunk's parts

unsigned byte_at(std::string_view file, size_t at) { return static_cast<unsigned char>(file[at]); }

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

/// The content of IHDR.
struct Header {
  uint64_t width = 0, height = 0;
  unsigned bits = 8, color = 0;

  explicit Header(std::string_view content)
      : width(big_endian(content, 0)),
        height(big_endian(content, 4)),
        bits(byte_at(content, 8)),
        color(byte_at(content, 9)) {}

  bool has_palette() const { return color == 3; }
  uint64_t samples() const { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }
};

/// Sides that a few damaged bytes say would take memory and time.
void check_sides(const Header& header, size_t compressed) {
  constexpr uint64_t kMostPixels = uint64_t{1} << 30;  // what OpenCV takes
  constexpr uint64_t kMostBytesPerByte = 1032;         // of zlib's compression
  const auto fits = [&] {
    if (header.width * header.height > kMostPixels) return false;
    const uint64_t row = (header.width * header.samples() * header.bits + 7) / 8;
    return header.height * row <= kMostBytesPerByte * compressed;
  };
  if (!fits())
    throw Error("its ", compressed, " bytes of pixels cannot hold the ", header.height, " x ",
                header.width, " pixels that it says it has; get the file again, or leave it out");
}

bool is_colored(std::string_view palette) {
  constexpr size_t kLongest = 3 * 256;
  for (size_t i = 0; i < std::min(palette.size(), kLongest); ++i) {
    if (byte_at(palette, i) != i / 3) return true;
  }
  return false;
}

}  // namespace

PngHeader read_png_header(std::string_view file) {
  const auto cut_off = [&] {
    throw Error("the image cannot be decoded: the PNG file is cut off after ", file.size(),
                " bytes; get the file again, or leave it out");
  };
  std::string_view name, header, palette, exif;
  size_t compressed = 0;
  for (size_t at = kMark; name != "IEND";) {
    if (file.size() < kHead || at > file.size() - kHead) cut_off();
    const size_t size = big_endian(file, at);
    name = file.substr(at + 4, 4);
    if (size > file.size() - at - kHead || file.size() - at - kHead - size < kCheck) cut_off();
    const std::string_view content = file.substr(at + kHead, size);
    constexpr size_t kHeader = 13;
    if (header.empty() && (name != "IHDR" || size != kHeader))
      throw Error(
          "the image is damaged (it does not begin with a header of PNG); get the file again, or "
          "leave it out");
    if (header.empty()) header = content;
    if (name == "PLTE") palette = content;
    if (name == "IDAT") compressed += size;
    if (name == "eXIf" && exif.empty() &&
        checksum(file.substr(at + 4, 4 + size)) == big_endian(file, at + kHead + size))
      exif = content;
    at += kHead + size + kCheck;
  }
  const Header content(header);
  check_sides(content, compressed);
  return {.bits = static_cast<int>(content.bits),
          .has_palette = content.has_palette(),
          .has_colored_palette = content.has_palette() && is_colored(palette),
          .orientation = exif_orientation(exif)};
}

}  // namespace crema
