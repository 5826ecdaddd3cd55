#include "data/png_decoder.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 30;  // what OpenCV takes
constexpr int64_t kMostBytesPerByte = 1032;        // of zlib's compression

/// Pixels that are sent together: of the whole image, or every few rows and columns of it.
struct Pass {
  int64_t top, left, down, across;  // the first pixel, and the steps to the next
  int64_t height(const PngChunks& png) const { return (png.height - top + down - 1) / down; }
  int64_t width(const PngChunks& png) const { return (png.width - left + across - 1) / across; }
  bool is_empty(const PngChunks& png) const { return top >= png.height || left >= png.width; }
};

std::vector<Pass> passes_of(const PngChunks& png) {
  if (!png.interlaced) return {{0, 0, 1, 1}};
  std::vector<Pass> passes = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                              {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};
  std::erase_if(passes, [&](const Pass& pass) { return pass.is_empty(png); });
  return passes;
}

int64_t row_bytes(const PngChunks& png, int64_t width) {
  return (width * png.samples() * png.depth + 7) / 8;
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error("the image is damaged (", what, "); get the file again, or leave it out");
}

uint8_t paeth(int left, int above, int corner) {
  const int by_left = std::abs(above - corner), by_above = std::abs(left - corner);
  const int by_corner = std::abs(left + above - 2 * corner);
  if (by_left <= by_above && by_left <= by_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(by_above <= by_corner ? above : corner);
}

/// Undoes the filter of a row (clause 9); `above` is the row before it, or zeros. `step` bytes are
/// a pixel.
void unfilter(int filter, uint8_t* row, const uint8_t* above, int64_t size, int64_t step) {
  const auto add = [](uint8_t& byte, int value) { byte = static_cast<uint8_t>(byte + value); };
  switch (filter) {
    case 0:
      return;
    case 1:
      for (int64_t i = step; i < size; ++i) add(row[i], row[i - step]);
      return;
    case 2:
      for (int64_t i = 0; i < size; ++i) add(row[i], above[i]);
      return;
    case 3:
      for (int64_t i = 0; i < std::min(step, size); ++i) add(row[i], above[i] / 2);
      for (int64_t i = step; i < size; ++i) add(row[i], (row[i - step] + above[i]) / 2);
      return;
    case 4:
      for (int64_t i = 0; i < std::min(step, size); ++i) add(row[i], above[i]);
      for (int64_t i = step; i < size; ++i)
        add(row[i], paeth(row[i - step], above[i], above[i - step]));
      return;
    default:
      damaged(concat("a row has the filter ", filter));
  }
}

struct Pixel {
  uint32_t red, green, blue, alpha;
};

/// Sample `index` of a row, with its own depth.
uint32_t sample_at(const uint8_t* row, int64_t index, int depth) {
  if (depth == 8) return row[index];
  if (depth == 16) return uint32_t{row[2 * index]} << 8 | row[2 * index + 1];
  const int64_t bit = index * depth;
  return (row[bit / 8] >> (8 - depth - bit % 8)) & ((1u << depth) - 1);
}

/// The pixels of a file, of 16 bits where its samples are, else of 8.
class Pixels {
 public:
  explicit Pixels(const PngChunks& png) : png_(png) {
    for (size_t i = 0; i + 2 < png.colors.size(); i += 3) {
      const auto of = [&](size_t c) { return uint32_t{static_cast<uint8_t>(png.colors[i + c])}; };
      const size_t index = i / 3;
      const uint32_t alpha = index < png.transparency.size() && png.color == PngChunks::palette
                                 ? static_cast<uint8_t>(png.transparency[index])
                                 : 255;
      palette_[index] = {of(0), of(1), of(2), alpha};
    }
    most_ = png.depth == 16 ? 65535 : 255;
    if (png.color == PngChunks::rgb && png.transparency.size() >= 6) {
      for (size_t c = 0; c < 3; ++c) {
        clear_[c] = uint32_t{static_cast<uint8_t>(png.transparency[2 * c])} << 8 |
                    static_cast<uint8_t>(png.transparency[2 * c + 1]);
      }
      has_clear_ = true;
    }
  }

  Pixel operator()(const uint8_t* row, int64_t x) const {
    const int depth = png_.depth;
    const auto sample = [&](int64_t i) { return sample_at(row, i, depth); };
    switch (png_.color) {
      case PngChunks::palette:
        return palette_[sample(x)];
      case PngChunks::rgb: {
        const Pixel pixel{sample(3 * x), sample(3 * x + 1), sample(3 * x + 2), most_};
        const bool clear = has_clear_ && pixel.red == clear_[0] && pixel.green == clear_[1] &&
                           pixel.blue == clear_[2];
        return clear ? Pixel{pixel.red, pixel.green, pixel.blue, 0} : pixel;
      }
      case PngChunks::rgb_alpha:
        return {sample(4 * x), sample(4 * x + 1), sample(4 * x + 2), sample(4 * x + 3)};
      case PngChunks::gray_alpha: {
        const uint32_t gray = sample(2 * x);
        return {gray, gray, gray, sample(2 * x + 1)};
      }
      case PngChunks::gray:
        break;
    }
    const uint32_t gray = depth < 8 ? sample(x) * 255 / ((1u << depth) - 1) : sample(x);
    return {gray, gray, gray, most_};
  }

 private:
  const PngChunks& png_;
  std::array<Pixel, 256> palette_{};  // black beyond its colours
  uint32_t most_ = 255;
  std::array<uint32_t, 3> clear_{};
  bool has_clear_ = false;
};

/// Weights of red, green and blue of 32768; with 16 bits it is rounded, as libpng does.
uint32_t gray_of(const Pixel& pixel, bool deep) {
  if (pixel.red == pixel.green && pixel.red == pixel.blue) return pixel.red;
  constexpr uint32_t kRed = 9797, kGreen = 19234, kBlue = 3737;
  const uint32_t sum = kRed * pixel.red + kGreen * pixel.green + kBlue * pixel.blue;
  return (sum + (deep ? 16384 : 0)) >> 15;
}

}  // namespace

void PngDecoder::inflate(const PngChunks& png) {
  const auto passes = passes_of(png);
  int64_t size = 0;
  for (const Pass& pass : passes) size += pass.height(png) * (1 + row_bytes(png, pass.width(png)));
  size_t compressed = 0;
  for (const std::string_view piece : png.data) compressed += piece.size();
  if (png.width > kMostPixels / png.height ||
      size / kMostBytesPerByte > static_cast<int64_t>(compressed))
    throw Error("its ", compressed, " bytes of pixels cannot hold the ", png.height, " x ",
                png.width, " pixels that it says it has; get the file again, or leave it out");
  rows_.resize(static_cast<size_t>(size));

  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) throw Error("zlib cannot begin: the memory does not suffice");
  // What the last piece leaves: the end of the compressed data, and what is too much of them.
  std::array<uint8_t, 256> rest;
  int64_t left = size;
  int status = Z_OK;
  for (size_t i = 0; i < png.data.size() && status == Z_OK; ++i) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(png.data[i].data()));
    stream.avail_in = static_cast<uInt>(png.data[i].size());
    while (stream.avail_in > 0 && status == Z_OK) {
      const int64_t room =
          left > 0 ? std::min<int64_t>(left, std::numeric_limits<uInt>::max()) : rest.size();
      stream.next_out = left > 0 ? rows_.data() + (size - left) : rest.data();
      stream.avail_out = static_cast<uInt>(room);
      status = ::inflate(&stream, Z_NO_FLUSH);
      const int64_t made = room - static_cast<int64_t>(stream.avail_out);
      if (left == 0 && made > 0) status = Z_STREAM_END;
      if (left > 0) left -= made;
      if (status == Z_BUF_ERROR && stream.avail_out > 0) status = Z_OK;  // the next piece goes on
    }
  }
  const std::string message = stream.msg != nullptr ? stream.msg : "they need a dictionary";
  ::inflateEnd(&stream);
  if (status != Z_OK && status != Z_STREAM_END) damaged(concat("its compressed data: ", message));
  if (left > 0 || status == Z_OK) damaged("its compressed data end early");

  // Each row begins with the number of its filter.
  const int64_t step = std::max<int64_t>(1, png.samples() * png.depth / 8);
  uint8_t* row = rows_.data();
  for (const Pass& pass : passes) {
    const int64_t bytes = row_bytes(png, pass.width(png));
    const std::vector<uint8_t> zeros(static_cast<size_t>(bytes));
    const uint8_t* above = zeros.data();
    for (int64_t h = 0; h < pass.height(png); ++h, row += 1 + bytes) {
      unfilter(row[0], row + 1, above, bytes, step);
      above = row + 1;
    }
  }
}

template <class Out>
Image PngDecoder::expand(const PngChunks& png, int64_t channels, std::vector<Out>& out) {
  const Pixels pixels(png);
  const bool deep = png.depth == 16;
  const bool is_bytes = sizeof(Out) == 1;
  const int shift = deep && is_bytes ? 8 : 0;
  const auto value = [shift](uint32_t sample) { return static_cast<Out>(sample >> shift); };
  const bool plain_gray = channels == 1 && png.color == PngChunks::gray;
  const bool copies = is_bytes && plain_gray && png.depth == 8;
  const bool swaps = is_bytes && channels == 3 && png.color == PngChunks::rgb && png.depth == 8;
  out.resize(static_cast<size_t>(png.height * png.width * channels));
  const uint8_t* row = rows_.data();
  for (const Pass& pass : passes_of(png)) {
    const int64_t width = pass.width(png), bytes = row_bytes(png, width);
    for (int64_t h = 0; h < pass.height(png); ++h, row += 1 + bytes) {
      Out* to = out.data() + ((pass.top + h * pass.down) * png.width + pass.left) * channels;
      const uint8_t* from = row + 1;
      if (copies && pass.across == 1) {
        std::copy_n(from, width, to);
        continue;
      }
      if (swaps && pass.across == 1) {
        for (int64_t w = 0; w < width; ++w, from += 3, to += 3) {
          to[0] = from[2];
          to[1] = from[1];
          to[2] = from[0];
        }
        continue;
      }
      for (int64_t w = 0; w < width; ++w, to += pass.across * channels) {
        const Pixel pixel = pixels(from, w);
        if (channels == 1) {
          to[0] = value(plain_gray ? pixel.red : gray_of(pixel, deep));
          continue;
        }
        to[0] = value(pixel.blue);
        to[1] = value(pixel.green);
        to[2] = value(pixel.red);
        if (channels == 4) to[3] = value(pixel.alpha);
      }
    }
  }
  return {.channels = channels, .height = png.height, .width = png.width, .interleaved = true};
}

Image PngDecoder::decode(const PngChunks& png, ColorMode mode, Depth depth) {
  const bool has_alpha = png.color == PngChunks::gray_alpha || png.color == PngChunks::rgb_alpha ||
                         (png.color != PngChunks::gray && !png.transparency.empty());
  const int64_t stored = has_alpha ? 4 : png.color == PngChunks::gray ? 1 : 3;
  const int64_t channels = mode == ColorMode::color ? 3 : mode == ColorMode::gray ? 1 : stored;
  inflate(png);
  if (png.depth == 16 && depth == Depth::own) {
    Image image = expand(png, channels, floats_);
    image.floats = floats_.data();
    return image;
  }
  Image image = expand(png, channels, bytes_);
  image.bytes = bytes_.data();
  return image;
}

Image PngDecoder::indices(const PngChunks& png) {
  inflate(png);
  bytes_.resize(static_cast<size_t>(png.height * png.width));
  const uint8_t* row = rows_.data();
  for (const Pass& pass : passes_of(png)) {
    const int64_t width = pass.width(png), bytes = row_bytes(png, width);
    for (int64_t h = 0; h < pass.height(png); ++h, row += 1 + bytes) {
      uint8_t* to = bytes_.data() + (pass.top + h * pass.down) * png.width + pass.left;
      for (int64_t w = 0; w < width; ++w)
        to[w * pass.across] = static_cast<uint8_t>(sample_at(row + 1, w, png.depth));
    }
  }
  return {.channels = 1,
          .height = png.height,
          .width = png.width,
          .interleaved = true,
          .bytes = bytes_.data()};
}

}  // namespace crema
