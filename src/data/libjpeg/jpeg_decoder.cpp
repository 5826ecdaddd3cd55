#include "data/jpeg_decoder.hpp"

// jpeglib.h needs the types of cstdio.
#include <cstdio>
// In this order.
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <vector>

#include "data/jpeg.hpp"

namespace crema {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 30;  // what OpenCV takes
constexpr int kExifMarker = JPEG_APP0 + 1;

/// libjpeg reports through it: errors jump out of the library, warnings are noted.
struct Reports {
  jpeg_error_mgr base;
  std::jmp_buf escape;
  bool warned;
  std::array<char, JMSG_LENGTH_MAX> first;  // warning or error, once warned
};

void note(j_common_ptr info) {
  auto* const reports = reinterpret_cast<Reports*>(info->err);
  if (!reports->warned) reports->base.format_message(info, reports->first.data());
  reports->warned = true;
}

[[noreturn]] void on_error(j_common_ptr info) {
  note(info);
  std::longjmp(reinterpret_cast<Reports*>(info->err)->escape, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level < 0) note(info);
}

void print_nothing(j_common_ptr) {}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  Reports reports{};
  bool opened = false;
  int64_t channels = 0;  // of the opened file, decoded
  std::vector<uint8_t> pixels;

  State() {
    info.err = jpeg_std_error(&reports.base);
    reports.base.error_exit = on_error;
    reports.base.emit_message = on_message;
    reports.base.output_message = print_nothing;
    jpeg_create_decompress(&info);
  }
  ~State() { jpeg_destroy_decompress(&info); }

  void close() {
    jpeg_abort_decompress(&info);
    opened = false;
  }
  bool read_header(std::string_view file);
  bool is_turned() const;
  bool read_pixels(const ImageWindow& window, int eighths, Image& image);
  void read_all(std::string_view file);
};

bool JpegDecoder::State::read_header(std::string_view file) {
  reports.warned = false;
  if (setjmp(reports.escape) != 0) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_save_markers(&info, kExifMarker, 0xffff);
  jpeg_read_header(&info, TRUE);
  return !reports.warned && (info.num_components == 1 || info.num_components == 3);
}

/// Whether an EXIF tag says, or may say, that the picture is to be turned. TIFF 6.0, section 2; tag
/// 0x112 is the orientation, 1 for none.
bool JpegDecoder::State::is_turned() const {
  for (const auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    constexpr size_t kName = 6, kEntry = 12;  // bytes of "Exif\0\0", of a tag
    if (marker->marker != kExifMarker || marker->data_length < kName + 8) continue;
    const std::basic_string_view<JOCTET> tiff(marker->data + kName, marker->data_length - kName);
    const bool little = tiff[0] == 'I' && tiff[1] == 'I';
    if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) continue;
    const auto number = [&](size_t at, size_t bytes) {
      size_t value = 0;
      for (size_t i = 0; i < bytes; ++i)
        value = value << 8 | tiff[at + (little ? bytes - 1 - i : i)];
      return value;
    };
    const size_t directory = number(4, 4);
    if (directory > tiff.size() - 2) return true;
    const size_t entries = number(directory, 2);
    if (entries * kEntry > tiff.size() - 2 - directory) return true;
    for (size_t i = 0; i < entries; ++i) {
      const size_t at = directory + 2 + i * kEntry;
      if (number(at, 2) == 0x112 && number(at + 8, 2) != 1) return true;
    }
  }
  return false;
}

bool JpegDecoder::State::read_pixels(const ImageWindow& window, int eighths, Image& image) {
  if (setjmp(reports.escape) != 0) return false;
  info.scale_num = static_cast<unsigned>(eighths);
  info.scale_denom = 8;
  info.out_color_space = image.channels == 3 ? JCS_EXT_BGR : JCS_GRAYSCALE;
  jpeg_start_decompress(&info);

  // Chroma is interpolated from its neighbours: two more columns on both sides make the wanted ones
  // those of the whole image.
  constexpr int64_t kMargin = 2;
  const int64_t width = info.output_width;
  auto left = static_cast<JDIMENSION>(std::max<int64_t>(0, window.left - kMargin));
  const int64_t right = std::min(width, window.left + window.width + kMargin);
  auto columns = static_cast<JDIMENSION>(right - left);
  if (columns < width) jpeg_crop_scanline(&info, &left, &columns);
  if (window.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.top));

  image.top = window.top;
  image.left = left;
  image.height = window.height;
  image.width = info.output_width;
  const auto row = static_cast<size_t>(image.width * image.channels);
  pixels.resize(row * static_cast<size_t>(window.height));
  std::array<JSAMPROW, 4> rows;
  for (size_t at = 0; at < static_cast<size_t>(window.height);) {
    const size_t count = std::min(rows.size(), static_cast<size_t>(window.height) - at);
    for (size_t i = 0; i < count; ++i) rows[i] = pixels.data() + (at + i) * row;
    at += jpeg_read_scanlines(&info, rows.data(), static_cast<JDIMENSION>(count));
  }
  image.bytes = pixels.data();
  return !reports.warned;
}

/// Notes warnings of any part of the file. An eighth of the size: all data are read, and one pixel
/// is made of 64.
void JpegDecoder::State::read_all(std::string_view file) {
  reports.warned = false;
  if (setjmp(reports.escape) != 0) return;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  pixels.resize(size_t{info.output_width} * static_cast<size_t>(info.output_components));
  JSAMPROW row = pixels.data();
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, &row, 1);
  jpeg_finish_decompress(&info);
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;

std::optional<Image> JpegDecoder::open(std::string_view file, ColorMode mode) {
  State& s = *state_;
  s.close();
  if (!file.starts_with("\xff\xd8\xff") || lacks_jpeg_end(file) || !s.read_header(file))
    return std::nullopt;
  const bool color =
      mode == ColorMode::color || (mode == ColorMode::as_stored && s.info.num_components > 1);
  const Image image{.channels = color ? 3 : 1,
                    .height = s.info.image_height,
                    .width = s.info.image_width,
                    .interleaved = true};
  if (image.height * image.width > kMostPixels) return std::nullopt;
  if (mode != ColorMode::as_stored && s.is_turned()) return std::nullopt;
  s.opened = true;
  s.channels = image.channels;
  return image;
}

std::optional<Image> JpegDecoder::pixels(const ImageWindow& window, int eighths) {
  State& s = *state_;
  if (!s.opened) return std::nullopt;
  Image image{.channels = s.channels, .interleaved = true};
  const bool whole = s.read_pixels(window, eighths, image);
  s.close();
  return whole ? std::optional(image) : std::nullopt;
}

std::string JpegDecoder::damage(std::string_view file) {
  State& s = *state_;
  s.close();
  if (!file.starts_with("\xff\xd8\xff") || lacks_jpeg_end(file)) return {};
  s.read_all(file);
  s.close();
  return s.reports.warned ? s.reports.first.data() : std::string();
}

}  // namespace crema
