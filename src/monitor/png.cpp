#include "monitor/png.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "crema/error.hpp"
#include "monitor/report/page.hpp"

namespace crema {
namespace {

void append_u32(std::string& out, uint32_t value) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) out += static_cast<char>(value >> shift & 255U);
}

void append_chunk(std::string& out, const std::string& type, const std::string& data) {
  append_u32(out, static_cast<uint32_t>(data.size()));
  const std::string body = type + data;
  out += body;
  append_u32(out, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                              static_cast<uInt>(body.size()))));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                Z_BEST_COMPRESSION) != Z_OK)
    throw Error("a picture cannot be compressed: no memory");
  out.resize(size);
  return out;
}

/// `color`: the colour type of the format; `more`: chunks between header and pixels.
std::string png_file(std::span<const uint8_t> pixels, int width, int height, int channels,
                     uint8_t color, const std::string& more) {
  const size_t row = static_cast<size_t>(width) * static_cast<size_t>(channels);
  if (width < 1 || height < 1 || pixels.size() != row * static_cast<size_t>(height))
    throw Error("a picture of ", width, " x ", height, " pixels has ", pixels.size(), " bytes");
  std::string header;
  append_u32(header, static_cast<uint32_t>(width));
  append_u32(header, static_cast<uint32_t>(height));
  header += {8, static_cast<char>(color), 0, 0, 0};
  std::string rows;
  const auto each = static_cast<size_t>(channels);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    const std::span<const uint8_t> line = pixels.subspan(y * row, row);
    // Differences compress better than the pixels of photos; indices of colours do not.
    const bool differs = color != 3;
    rows += differs ? '\1' : '\0';
    for (size_t x = 0; x < row; ++x)
      rows += static_cast<char>(line[x] - (differs && x >= each ? line[x - each] : 0));
  }
  std::string file = "\x89PNG\r\n\x1a\n";
  append_chunk(file, "IHDR", header);
  file += more;
  append_chunk(file, "IDAT", deflated(rows));
  append_chunk(file, "IEND", "");
  return file;
}

}  // namespace

std::string png_of_pixels(std::span<const uint8_t> pixels, int width, int height, int channels) {
  return png_file(pixels, width, height, channels, channels == 1 ? 0 : 2, "");
}

std::string png_of_classes(std::span<const uint8_t> classes, int width, int height) {
  std::string colors, alphas, more;
  for (int c = 0; c < 256; ++c) {
    const std::string color = class_color(c);
    for (size_t part = 0; part < 3; ++part) {
      unsigned value = 0;
      std::from_chars(color.data() + 1 + 2 * part, color.data() + 3 + 2 * part, value, 16);
      colors += static_cast<char>(value);
    }
    alphas += static_cast<char>(c == 255 ? 0 : c == 0 ? 30 : 255);
  }
  append_chunk(more, "PLTE", colors);
  append_chunk(more, "tRNS", alphas);
  return png_file(classes, width, height, 1, 3, more);
}

}  // namespace crema
