#include "data/png_chunks.hpp"

#include <zlib.h>

#include <algorithm>

#include "crema/error.hpp"
#include "data/image_header.hpp"

namespace crema {
namespace {

constexpr size_t kMark = 8, kHead = 8, kCheck = 4;  // bytes of the file's mark, of a chunk's parts

unsigned byte_at(std::string_view file, size_t at) { return static_cast<unsigned char>(file[at]); }

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()),
                                         static_cast<size_t>(bytes.size())));
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error("the image is damaged (", what, "); get the file again, or leave it out");
}

void read_header(std::string_view content, PngChunks& png) {
  constexpr size_t kHeader = 13;
  if (content.size() != kHeader) damaged(concat("its header has ", content.size(), " bytes"));
  png.width = big_endian(content, 0);
  png.height = big_endian(content, 4);
  png.depth = static_cast<int>(byte_at(content, 8));
  const unsigned color = byte_at(content, 9), interlace = byte_at(content, 12);
  png.color = static_cast<PngChunks::Color>(color);
  png.interlaced = interlace == 1;
  const auto is_one_of = [&](std::initializer_list<int> depths) {
    return std::ranges::find(depths, png.depth) != depths.end();
  };
  const bool known =
      color == PngChunks::gray      ? is_one_of({1, 2, 4, 8, 16})
      : color == PngChunks::palette ? is_one_of({1, 2, 4, 8})
      : color == PngChunks::rgb || color == PngChunks::gray_alpha || color == PngChunks::rgb_alpha
          ? is_one_of({8, 16})
          : false;
  constexpr int64_t kLongest = 0x7fffffff;
  if (!known || interlace > 1 || byte_at(content, 10) != 0 || byte_at(content, 11) != 0 ||
      png.width < 1 || png.height < 1 || png.width > kLongest || png.height > kLongest)
    damaged(concat("its header says ", png.width, " x ", png.height, " pixels of colour type ",
                   color, ", ", png.depth, " bits"));
}

}  // namespace

bool PngChunks::has_colored_palette() const {
  if (color != palette) return false;
  for (size_t i = 0; i < colors.size(); ++i) {
    if (byte_at(colors, i) != i / 3) return true;
  }
  return false;
}

PngChunks read_png_chunks(std::string_view file) {
  PngChunks png;
  const auto cut_off = [&]() -> std::string_view {
    throw Error("the image cannot be decoded: the PNG file is cut off after ", file.size(),
                " bytes; get the file again, or leave it out");
  };
  bool has_header = false;
  for (size_t at = kMark;;) {
    if (file.size() < kHead || at > file.size() - kHead) cut_off();
    const size_t size = big_endian(file, at);
    const std::string_view name = file.substr(at + 4, 4);
    const bool is_needed = byte_at(name, 0) < 'a' || name == "tRNS";
    if (size > file.size() - at - kHead || file.size() - at - kHead - size < kCheck) cut_off();
    const std::string_view content = file.substr(at + kHead, size);
    const bool good =
        checksum(file.substr(at + 4, 4 + size)) == big_endian(file, at + kHead + size);
    if (!good && is_needed)
      damaged(concat("the checksum of its chunk ", name, " at byte ", at, " is wrong"));
    at += kHead + size + kCheck;
    if (!has_header && name != "IHDR") damaged("it does not begin with its header");
    if (name == "IHDR") {
      read_header(content, png);
      has_header = true;
    } else if (name == "PLTE") {
      png.colors = content.substr(0, 3 * std::min<size_t>(256, size / 3));
    } else if (name == "tRNS") {
      png.transparency = content;
    } else if (name == "IDAT") {
      png.data.push_back(content);
    } else if (name == "eXIf") {
      if (good && png.exif.empty()) png.exif = content;
    } else if (name == "IEND") {
      break;
    } else if (is_needed) {
      damaged(concat("it needs a chunk ", name, ", which is none of PNG"));
    }
  }
  if (png.color == PngChunks::palette && png.colors.empty()) damaged("it lacks its palette");
  if (png.data.empty()) damaged("it lacks its pixels");
  return png;
}

}  // namespace crema
