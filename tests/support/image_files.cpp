#include "support/image_files.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace crema::test {
namespace {

std::string number(uint32_t value, int bytes, bool big_endian) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)));
  return text;
}

/// A tag of a TIFF directory with one value, or the place of its values.
std::string tag(int number_of, int type, int count, uint32_t value, bool big_endian) {
  const int bytes = type == 3 && count == 1 ? 2 : 4;
  std::string entry = number(static_cast<uint32_t>(number_of), 2, big_endian) +
                      number(static_cast<uint32_t>(type), 2, big_endian) +
                      number(static_cast<uint32_t>(count), 4, big_endian) +
                      number(value, bytes, big_endian);
  entry.resize(12, '\0');
  return entry;
}

std::string tiff_head(bool big_endian) {
  return (big_endian ? std::string("MM\0*", 4) : std::string("II*\0", 4)) +
         number(8, 4, big_endian);
}

int paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int by_left = std::abs(guess - left), by_above = std::abs(guess - above);
  const int by_corner = std::abs(guess - corner);
  return by_left <= by_above && by_left <= by_corner ? left
         : by_above <= by_corner                     ? above
                                                     : corner;
}

/// The row with the number of its filter before it.
std::string filtered(int filter, const std::string& row, const std::string& above, size_t step) {
  std::string out(1, static_cast<char>(filter));
  for (size_t i = 0; i < row.size(); ++i) {
    const auto byte = [i](const std::string& from, size_t back) {
      return i >= back ? int{static_cast<uint8_t>(from[i - back])} : 0;
    };
    const int left = byte(row, step), up = byte(above, 0), corner = byte(above, step);
    const int guesses[] = {0, left, up, (left + up) / 2, paeth(left, up, corner)};
    out += static_cast<char>(byte(row, 0) - guesses[filter]);
  }
  return out;
}

}  // namespace

std::string exif(int orientation, bool big_endian) {
  return tiff_head(big_endian) + number(1, 2, big_endian) +
         tag(274, 3, 1, static_cast<uint32_t>(orientation), big_endian) + std::string(4, '\0');
}

std::string jpeg_with_exif(const std::string& jpeg, const std::string& exif) {
  const std::string content = std::string("Exif\0\0", 6) + exif;
  std::string file = jpeg;
  file.insert(2, "\xff\xe1" + number(static_cast<uint32_t>(content.size() + 2), 2, true) + content);
  return file;
}

std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  const auto sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return number(static_cast<uint32_t>(content.size()), 4, true) + checked +
         number(static_cast<uint32_t>(sum), 4, true);
}

std::string png_file(const std::vector<uint16_t>& samples, int height, int width,
                     const PngKind& kind) {
  const int each = kind.color == 2 ? 3 : kind.color == 4 ? 2 : kind.color == 6 ? 4 : 1;
  std::vector<std::array<int, 4>> passes = {{0, 0, 1, 1}};
  if (kind.interlaced)
    passes = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
              {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};
  std::string rows;
  int filter = 0;
  for (const auto& [top, left, down, across] : passes) {
    std::string above;
    for (int h = top; h < height && left < width; h += down) {
      std::string row;
      int bits = 0;
      for (int w = left; w < width; w += across) {
        for (int s = 0; s < each; ++s) {
          const uint16_t sample = samples[static_cast<size_t>((h * width + w) * each + s)];
          if (kind.depth >= 8) {
            row += number(sample, kind.depth / 8, true);
            continue;
          }
          if (bits % 8 == 0) row += '\0';
          row.back() = static_cast<char>(row.back() | sample << (8 - kind.depth - bits % 8));
          bits += kind.depth;
        }
      }
      above.resize(row.size(), '\0');
      const int step = std::max(1, each * kind.depth / 8);
      rows += filtered(filter++ % 5, row, above, static_cast<size_t>(step));
      above = row;
    }
  }
  uLongf size = ::compressBound(static_cast<uLong>(rows.size()));
  std::string data(size, '\0');
  ::compress(reinterpret_cast<Bytef*>(data.data()), &size,
             reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()));
  data.resize(size);
  std::string file = "\x89PNG\r\n\x1a\n";
  file += png_chunk("IHDR", number(static_cast<uint32_t>(width), 4, true) +
                                number(static_cast<uint32_t>(height), 4, true) +
                                static_cast<char>(kind.depth) + static_cast<char>(kind.color) +
                                std::string(2, '\0') + static_cast<char>(kind.interlaced));
  if (!kind.palette.empty()) file += png_chunk("PLTE", kind.palette);
  if (!kind.transparency.empty()) file += png_chunk("tRNS", kind.transparency);
  if (!kind.exif.empty()) file += png_chunk("eXIf", kind.exif);
  // Several chunks are one stream.
  file += png_chunk("IDAT", data.substr(0, data.size() / 2));
  file += png_chunk("IDAT", data.substr(data.size() / 2));
  return file + png_chunk("IEND", "");
}

std::string gif_file(const std::vector<uint8_t>& indices, int height, int width,
                     const GifKind& kind) {
  const auto two = [](int value) { return number(static_cast<uint32_t>(value), 2, false); };
  std::string palette = kind.palette;
  palette.resize(256 * 3, '\0');
  std::string file = "GIF89a" + two(kind.screen_width ? kind.screen_width : width) +
                     two(kind.screen_height ? kind.screen_height : height) + '\xf7' +
                     static_cast<char>(kind.background) + '\0' + palette;
  if (kind.transparent >= 0)
    file += std::string("\x21\xf9\x04\x01\0\0", 6) + static_cast<char>(kind.transparent) + '\0';
  file += ',' + two(kind.left) + two(kind.top) + two(width) + two(height) +
          static_cast<char>(kind.interlaced ? 0x40 : 0) + '\x08';
  // Codes of 9 bits alone: a clear code before the table of strings grows to longer ones.
  std::string data;
  uint32_t held = 0;
  int bits = 0, since = 0;
  const auto put = [&](uint32_t code) {
    held |= code << bits;
    for (bits += 9; bits >= 8; bits -= 8, held >>= 8) data += static_cast<char>(held);
  };
  constexpr uint32_t kClear = 256, kEnd = 257;
  std::vector<int> order;
  if (kind.interlaced) {
    for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      for (int row = first; row < height; row += step) order.push_back(row);
    }
  } else {
    for (int row = 0; row < height; ++row) order.push_back(row);
  }
  for (const int row : order) {
    for (int w = 0; w < width; ++w) {
      if (since++ % 200 == 0) put(kClear);
      put(indices[static_cast<size_t>(row * width + w)]);
    }
  }
  put(kEnd);
  if (bits > 0) data += static_cast<char>(held);
  for (size_t at = 0; at < data.size(); at += 255) {
    const std::string block = data.substr(at, 255);
    file += static_cast<char>(block.size()) + block;
  }
  return file + '\0' + ';';
}

std::string tiff_file(const std::vector<uint16_t>& samples, int height, int width,
                      const TiffKind& kind) {
  const bool big = kind.big_endian;
  const auto w = static_cast<uint32_t>(width), h = static_cast<uint32_t>(height);
  const auto c = static_cast<uint32_t>(kind.channels), bits = static_cast<uint32_t>(kind.bits);
  constexpr uint32_t kTags = 10, kBits = 8 + 2 + kTags * 12 + 4, kPixels = kBits + 6;
  std::string file = tiff_head(big) + number(kTags, 2, big);
  file += tag(256, 4, 1, w, big) + tag(257, 4, 1, h, big);
  file += c == 1 ? tag(258, 3, 1, bits, big) : tag(258, 3, 3, kBits, big);
  file += tag(259, 3, 1, 1, big) + tag(262, 3, 1, c == 1 ? 1 : 2, big);
  file += tag(273, 4, 1, kPixels, big);
  file += tag(274, 3, 1, static_cast<uint32_t>(kind.orientation), big);
  file += tag(277, 3, 1, c, big) + tag(278, 4, 1, h, big);
  file += tag(279, 4, 1, w * h * c * bits / 8, big) + std::string(4, '\0');
  for (int i = 0; i < 3; ++i) file += number(bits, 2, big);
  for (const uint16_t sample : samples) file += number(sample, kind.bits / 8, big);
  return file;
}

std::string webp_with_exif(const std::string& webp, int height, int width,
                           const std::string& exif) {
  const auto chunk = [](const std::string& name, const std::string& content) {
    return name + number(static_cast<uint32_t>(content.size()), 4, false) + content +
           std::string(content.size() % 2, '\0');
  };
  constexpr uint32_t kHasExif = 8;
  const std::string extended = number(kHasExif, 4, false) +
                               number(static_cast<uint32_t>(width - 1), 3, false) +
                               number(static_cast<uint32_t>(height - 1), 3, false);
  const std::string body = "WEBP" + chunk("VP8X", extended) + webp.substr(12) + chunk("EXIF", exif);
  return "RIFF" + number(static_cast<uint32_t>(body.size()), 4, false) + body;
}

}  // namespace crema::test
