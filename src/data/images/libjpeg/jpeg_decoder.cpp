#include "data/images/jpeg_decoder.hpp"

// jpeglib.h needs the types of cstdio.
#include <cstdio>
// In this order.
#include <jpeglib.h>
// Its numbers depend on jpeglib.h.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "data/images/image_header.hpp"
#include "data/images/jpeg.hpp"

namespace crema {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 30;  // what OpenCV takes
/// A Huffman code has a bit for each component of a block, 64 pixels, at least: 512 pixels a byte.
/// Arithmetic codes have no such bound.
constexpr int64_t kMostPixelsPerByte = 4096;

/// libjpeg reports through it: errors jump out of the library, damage is noted.
struct Reports {
  jpeg_error_mgr base;
  std::jmp_buf escape;
  bool failed, damaged;
  std::array<char, JMSG_LENGTH_MAX> failure;  // once failed
  std::array<char, JMSG_LENGTH_MAX> damage;   // the first, once damaged
};

/// Whether bytes that were passed over on the way to a marker are data that remained because those
/// before them are damaged. Headers have none, and encoders pad data with a few bytes of one kind.
bool are_data(const jpeg_decompress_struct& info, int count) {
  constexpr int kMostPadding = 64;
  if (info.input_scan_number == 0) return false;
  const JOCTET* const end = info.src->next_input_byte;
  return count > kMostPadding ||
         std::any_of(end - count, end, [end](JOCTET byte) { return byte != end[-1]; });
}

/// Whether libjpeg makes up pixels where it gives its present warning.
bool is_damage(j_common_ptr common) {
  switch (common->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
      return are_data(*reinterpret_cast<j_decompress_ptr>(common), common->err->msg_parm.i[0]);
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_JPEG_EOF:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void on_error(j_common_ptr info) {
  auto* const reports = reinterpret_cast<Reports*>(info->err);
  reports->base.format_message(info, reports->failure.data());
  reports->failed = true;
  std::longjmp(reports->escape, 1);
}

void on_message(j_common_ptr info, int level) {
  auto* const reports = reinterpret_cast<Reports*>(info->err);
  if (level >= 0 || reports->damaged || !is_damage(info)) return;
  reports->base.format_message(info, reports->damage.data());
  reports->damaged = true;
}

void print_nothing(j_common_ptr) {}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  Reports reports{};
  bool opened = false;
  int64_t channels = 0;  // of the opened file, decoded
  Orientation orientation;
  std::vector<uint8_t> pixels, turned;
  std::string_view opened_file;
  std::unique_ptr<DeviceJpeg> device;  // or null

  explicit State(std::unique_ptr<DeviceJpeg> of) : device(std::move(of)) {
    info.err = jpeg_std_error(&reports.base);
    reports.base.error_exit = on_error;
    reports.base.emit_message = on_message;
    reports.base.output_message = print_nothing;
    jpeg_create_decompress(&info);
  }
  ~State() { jpeg_destroy_decompress(&info); }

  void refuse_damage(const char* what) const {
    if (reports.damaged)
      throw Error(
          what, " (", reports.damage.data(),
          "), and decoding would make up a part of it; get the file again, or leave it out");
  }
  void refuse_failure() const {
    if (reports.failed)
      throw Error("the image is damaged, or no JPEG that can be read (", reports.failure.data(),
                  "); get the file again, or leave it out");
  }
  void begin() { reports.failed = reports.damaged = false; }
  /// Sides that a few damaged bytes say would take memory and time.
  void check_sides(size_t bytes) const {
    const auto height = int64_t{info.image_height}, width = int64_t{info.image_width};
    if (!info.arith_code && height * width / kMostPixelsPerByte > static_cast<int64_t>(bytes))
      throw Error("its ", bytes, " bytes cannot hold the ", height, " x ", width,
                  " pixels that it says it has; get the file again, or leave it out");
  }
  void close() {
    jpeg_abort_decompress(&info);
    opened = false;
  }
  bool read_header(std::string_view file);
  /// Whether the opened file is of the kind that devices decode. They do not make colours of gray.
  bool is_for_device() const {
    const bool known = info.jpeg_color_space == JCS_YCbCr ||
                       (info.jpeg_color_space == JCS_GRAYSCALE && channels == 1);
    return known && !info.progressive_mode && !info.arith_code && info.data_precision == 8 &&
           info.comps_in_scan == info.num_components;
  }
  bool read_on_device(const ImageWindow& window, Image& image);
  bool read_pixels(const ImageWindow& window, int eighths, Image& image);
  Image upright(const Image& image, ImageSize stored);
  void read_all(std::string_view file);
};

bool JpegDecoder::State::read_header(std::string_view file) {
  begin();
  if (setjmp(reports.escape) != 0) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  return info.num_components == 1 || info.num_components == 3;
}

bool JpegDecoder::State::read_on_device(const ImageWindow& window, Image& image) {
  image.top = window.top;
  image.left = window.left;
  image.height = window.height;
  image.width = window.width;
  pixels.resize(static_cast<size_t>(image.count()));
  image.bytes = pixels.data();
  const JpegPart part{window.top, window.left, window.height, window.width};
  return device->decode(opened_file, static_cast<int>(channels), part, pixels.data());
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
  pixels.resize(row * static_cast<size_t>(window.height + 1));
  std::array<JSAMPROW, 4> rows;
  for (size_t at = 0; at < static_cast<size_t>(window.height);) {
    const size_t count = std::min(rows.size(), static_cast<size_t>(window.height) - at);
    for (size_t i = 0; i < count; ++i) rows[i] = pixels.data() + (at + i) * row;
    at += jpeg_read_scanlines(&info, rows.data(), static_cast<JDIMENSION>(count));
  }
  image.bytes = pixels.data();
  if (jpeg_input_complete(&info)) return true;
  // Damaged data can decode to other pixels without a warning before their end.
  JSAMPROW last = pixels.data() + row * static_cast<size_t>(window.height);
  if (const JDIMENSION rest = info.output_height - info.output_scanline; rest > 0) {
    if (rest > 1) jpeg_skip_scanlines(&info, rest - 1);
    jpeg_read_scanlines(&info, &last, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

/// The part of the file, of size `stored`, as a part of the picture.
Image JpegDecoder::State::upright(const Image& image, ImageSize stored) {
  const ImageSize part{image.height, image.width};
  turned.resize(static_cast<size_t>(image.count()));
  orientation.turn(image.bytes, part, image.channels, turned.data());
  const ImageWindow window = orientation.in_picture(
      {.top = image.top, .left = image.left, .height = image.height, .width = image.width}, stored);
  return {.channels = image.channels,
          .height = window.height,
          .width = window.width,
          .top = window.top,
          .left = window.left,
          .interleaved = true,
          .bytes = turned.data()};
}

/// Notes damage in any part of the file. An eighth of the size: all data are read, and one pixel
/// is made of 64.
void JpegDecoder::State::read_all(std::string_view file) {
  begin();
  if (setjmp(reports.escape) != 0) return;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  check_sides(file.size());
  info.scale_num = 1;
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  pixels.resize(size_t{info.output_width} * static_cast<size_t>(info.output_components));
  JSAMPROW row = pixels.data();
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, &row, 1);
  jpeg_finish_decompress(&info);
}

JpegDecoder::JpegDecoder() : JpegDecoder(nullptr) {}
JpegDecoder::JpegDecoder(std::unique_ptr<DeviceJpeg> device)
    : state_(std::make_unique<State>(std::move(device))) {}
JpegDecoder::~JpegDecoder() = default;

std::optional<Image> JpegDecoder::open(std::string_view file, ColorMode mode) {
  State& s = *state_;
  s.close();
  if (!file.starts_with("\xff\xd8\xff") || lacks_jpeg_end(file) || !s.read_header(file))
    return std::nullopt;
  s.check_sides(file.size());
  const bool color =
      mode == ColorMode::color || (mode == ColorMode::as_stored && s.info.num_components > 1);
  s.orientation = exif_orientation(jpeg_exif(file));
  const auto [height, width] = s.orientation.turned({s.info.image_height, s.info.image_width});
  const Image image{
      .channels = color ? 3 : 1, .height = height, .width = width, .interleaved = true};
  if (image.height * image.width > kMostPixels) return std::nullopt;
  s.opened = true;
  s.opened_file = file;
  s.channels = image.channels;
  return image;
}

std::optional<Image> JpegDecoder::pixels(const ImageWindow& window, int eighths) {
  State& s = *state_;
  if (!s.opened) return std::nullopt;
  const auto scaled = [eighths](int64_t side) { return (side * eighths + 7) / 8; };
  const ImageSize stored{scaled(s.info.image_height), scaled(s.info.image_width)};
  Image image{.channels = s.channels, .interleaved = true};
  const ImageWindow in_file = s.orientation.in_file(window, stored);
  const bool by_device =
      s.device != nullptr && eighths == 8 && s.is_for_device() && s.read_on_device(in_file, image);
  // What a device refuses may be damaged: the host says how.
  const bool whole = by_device || s.read_pixels(in_file, eighths, image);
  s.close();
  s.refuse_damage("the image is damaged");
  if (!whole) s.refuse_failure();
  return s.orientation.is_upright() ? image : s.upright(image, stored);
}

void JpegDecoder::check(std::string_view file) {
  State& s = *state_;
  s.close();
  if (!file.starts_with("\xff\xd8\xff")) return;
  const bool lacks_end = lacks_jpeg_end(file);
  if (lacks_end) {
    // The marker alone may be missing: then the data are whole.
    if (file.back() == '\xff') file.remove_suffix(1);
    s.read_all(std::string(file) + "\xff\xd9");
  } else {
    s.read_all(file);
  }
  s.close();
  s.refuse_damage(lacks_end ? "the JPEG file is cut off" : "the image is damaged");
  s.refuse_failure();
}

}  // namespace crema
