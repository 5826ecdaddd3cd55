#include "data/images/gif_decoder.hpp"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 30;

/// Reads the file for giflib.
struct Source {
  std::string_view rest;
  static int read(GifFileType* gif, GifByteType* to, int count) {
    std::string_view& rest = static_cast<Source*>(gif->UserData)->rest;
    const size_t size = std::min(rest.size(), static_cast<size_t>(std::max(count, 0)));
    std::memcpy(to, rest.data(), size);
    rest.remove_prefix(size);
    return static_cast<int>(size);
  }
};

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

[[noreturn]] void damaged(int error) {
  const char* const message = GifErrorString(error);
  throw Error("the image is damaged (", message != nullptr ? message : "unknown error of giflib",
              "); get the file again, or leave it out");
}

struct Color {
  uint8_t red = 0, green = 0, blue = 0;
};

Color color_of(const ColorMapObject* map, int index) {
  if (map == nullptr || index < 0 || index >= map->ColorCount) return {};
  const GifColorType& color = map->Colors[index];
  return {color.Red, color.Green, color.Blue};
}

/// The colour that a picture leaves as it is, of its graphics control extension; -1: none.
int transparent_index(GifFileType* gif) {
  int code = 0, transparent = -1;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) damaged(gif->Error);
  while (block != nullptr) {
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
      transparent = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) damaged(gif->Error);
  }
  return code == GRAPHICS_EXT_FUNC_CODE ? transparent : -2;
}

/// Goes on to the first picture. Returns the index of its colour that is transparent, or -1.
int find_picture(GifFileType* gif) {
  int transparent = -1;
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &type) == GIF_ERROR) damaged(gif->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif) == GIF_ERROR) damaged(gif->Error);
      return transparent;
    }
    if (type == TERMINATE_RECORD_TYPE) throw Error("the GIF file has no picture; leave it out");
    if (type == EXTENSION_RECORD_TYPE) {
      if (const int index = transparent_index(gif); index != -2) transparent = index;
    }
  }
}

/// The rows in the order that the file has them.
std::vector<int> row_order(const GifImageDesc& picture) {
  std::vector<int> rows;
  if (!picture.Interlace) {
    for (int row = 0; row < picture.Height; ++row) rows.push_back(row);
    return rows;
  }
  constexpr std::array<std::pair<int, int>, 4> kPasses = {std::pair{0, 8}, std::pair{4, 8},
                                                          std::pair{2, 4}, std::pair{1, 2}};
  for (const auto& [first, step] : kPasses) {
    for (int row = first; row < picture.Height; row += step) rows.push_back(row);
  }
  return rows;
}

}  // namespace

Image GifDecoder::decode(std::string_view file, ColorMode mode) {
  Source source{file};
  int error = 0;
  const std::unique_ptr<GifFileType, Close> gif(DGifOpen(&source, Source::read, &error));
  if (!gif) damaged(error);
  const int transparent = find_picture(gif.get());
  const GifImageDesc& picture = gif->Image;
  // Some writers leave the size of the screen out, or make it smaller than the picture.
  const int64_t height = std::max(gif->SHeight, picture.Top + picture.Height);
  const int64_t width = std::max(gif->SWidth, picture.Left + picture.Width);
  // A code gives 4096 pixels at most, and a screen is not much larger than its first picture.
  constexpr int64_t kMostPixelsPerByte = 4096;
  if (height < 1 || width < 1 || height * width > kMostPixels ||
      height * width / kMostPixelsPerByte > static_cast<int64_t>(file.size()))
    throw Error("its ", file.size(), " bytes cannot hold the ", height, " x ", width,
                " pixels that it says it has; get the file again, or leave it out");
  const ColorMapObject* const map = picture.ColorMap != nullptr ? picture.ColorMap : gif->SColorMap;

  const int64_t channels = mode == ColorMode::gray ? 1 : 3;
  std::array<std::array<uint8_t, 3>, 256> values{};
  const auto value_of = [&](Color color) -> std::array<uint8_t, 3> {
    if (channels == 3) return {color.blue, color.green, color.red};
    // As libpng makes it of PNG files.
    const int gray = color.red == color.green && color.red == color.blue
                         ? color.red
                         : (9797 * color.red + 19234 * color.green + 3737 * color.blue) >> 15;
    return {static_cast<uint8_t>(gray)};
  };
  for (int i = 0; i < 256; ++i) values[static_cast<size_t>(i)] = value_of(color_of(map, i));
  const auto background = value_of(color_of(gif->SColorMap, gif->SBackGroundColor));

  pixels_.resize(static_cast<size_t>(height * width * channels));
  const auto put = [&](const std::array<uint8_t, 3>& value, uint8_t* to) {
    std::copy_n(value.begin(), channels, to);
  };
  for (int64_t i = 0; i < height * width; ++i) put(background, pixels_.data() + i * channels);
  std::vector<GifPixelType> line(static_cast<size_t>(picture.Width));
  for (const int row : row_order(picture)) {
    if (DGifGetLine(gif.get(), line.data(), picture.Width) == GIF_ERROR) damaged(gif->Error);
    uint8_t* to = pixels_.data() + ((picture.Top + row) * width + picture.Left) * channels;
    for (const GifPixelType index : line) {
      if (int{index} != transparent) put(values[index], to);
      to += channels;
    }
  }
  return {.channels = channels,
          .height = height,
          .width = width,
          .interleaved = true,
          .bytes = pixels_.data()};
}

}  // namespace crema
