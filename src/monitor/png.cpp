#include "monitor/png.hpp"

#include <zlib.h>

#include <string_view>

#include "crema/error.hpp"

namespace crema {
namespace {

void add_big(std::string& bytes, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
}

void add_chunk(std::string& file, std::string_view type, std::string_view data) {
  add_big(file, static_cast<uint32_t>(data.size()));
  const size_t begin = file.size();
  file += type;
  file += data;
  add_big(file, static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(&file[begin]),
                                              static_cast<uInt>(file.size() - begin))));
}

}  // namespace

std::string png_of(std::span<const uint8_t> pixels, int height, int width, int channels) {
  std::string head;
  add_big(head, static_cast<uint32_t>(width));
  add_big(head, static_cast<uint32_t>(height));
  head += '\x08';                         // bits
  head += channels == 3 ? '\x02' : '\0';  // colours, or gray
  head += std::string(3, '\0');

  const size_t row = static_cast<size_t>(width) * static_cast<size_t>(channels);
  std::string raw;
  raw.reserve((row + 1) * static_cast<size_t>(height));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    raw += '\0';  // no filter
    raw.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  uLongf size = ::compressBound(raw.size());
  std::string packed(size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                  reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 6) != Z_OK)
    throw Error("zlib cannot compress a picture of ", height, " x ", width);
  packed.resize(size);

  std::string file = "\x89PNG\r\n\x1A\n";
  add_chunk(file, "IHDR", head);
  add_chunk(file, "IDAT", packed);
  add_chunk(file, "IEND", "");
  return file;
}

}  // namespace crema
