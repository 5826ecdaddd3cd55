#include "data/images/png_decoder.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <string>

#include "crema/error.hpp"

namespace crema {
namespace {

/// A message of libpng, or several; what does not fit is left out. Callbacks of libpng may not
/// throw, so it takes no memory.
class Text {
 public:
  bool empty() const { return size_ == 0; }
  void append(std::string_view text) {
    const size_t count = std::min(text.size(), text_.size() - size_);
    std::copy_n(text.data(), count, text_.data() + size_);
    size_ += count;
  }
  std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 256> text_;
  size_t size_ = 0;
};

/// Whether libpng makes up or leaves out something of the pixels where it gives this warning. Data
/// behind the last pixel do not matter, but their end has a checksum of all.
bool is_damage(std::string_view warning) {
  return warning == "tRNS: CRC error" ||
         (warning.starts_with("IDAT: ") && warning != "IDAT: Too much image data" &&
          warning != "IDAT: Extra compressed data");
}

/// What is to come of a file.
struct Wanted {
  bool indices = false;
  ColorMode mode = ColorMode::as_stored;
  Depth depth = Depth::bytes;
};

/// One file. Errors jump out of libpng into begin() and read(), which therefore own nothing.
class Reader {
 public:
  explicit Reader(std::string_view file) : rest_(file) {}
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Reads what comes before the pixels, and settles what they become.
  void start(const Wanted& wanted) {
    if (!begin(wanted)) fail();
  }
  Image shape() const {
    return {.channels = png_get_channels(png_, info_),
            .height = png_get_image_height(png_, info_),
            .width = png_get_image_width(png_, info_),
            .interleaved = true};
  }
  /// Bytes of a sample.
  int64_t sample_bytes() const { return png_get_bit_depth(png_, info_) / 8; }
  /// The rest of the file; samples of two bytes are big-endian.
  void read_pixels(std::vector<uint8_t>& pixels) {
    const size_t row = png_get_rowbytes(png_, info_);
    pixels.resize(row * png_get_image_height(png_, info_));
    if (!read(pixels.data(), row)) fail();
  }

 private:
  static void take(png_structp png, png_bytep to, size_t size) {
    std::string_view& rest = static_cast<Reader*>(png_get_io_ptr(png))->rest_;
    if (size > rest.size()) png_error(png, "the file ends early");
    std::memcpy(to, rest.data(), size);
    rest.remove_prefix(size);
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* const reader = static_cast<Reader*>(png_get_error_ptr(png));
    if (reader->failure_.empty()) reader->failure_.append(message);
    std::longjmp(reader->escape_, 1);
  }
  static void on_warning(png_structp png, png_const_charp message) {
    auto* const reader = static_cast<Reader*>(png_get_error_ptr(png));
    if (reader->failure_.empty() && is_damage(message)) {
      reader->failure_.append(message);
      return;
    }
    reader->warnings_.append("; ");
    reader->warnings_.append(message);
  }
  [[noreturn]] void fail() const {
    throw Error("the image is damaged (",
                failure_.empty() ? std::string_view("libpng cannot begin") : failure_.view(),
                warnings_.view(), "); get the file again, or leave it out");
  }

  bool begin(const Wanted& wanted);
  bool read(uint8_t* pixels, size_t row);
  void transform(const Wanted& wanted);

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf escape_;
  std::string_view rest_;
  Text failure_, warnings_;
};

bool Reader::begin(const Wanted& wanted) {
  if (setjmp(escape_) != 0) return false;
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png_ == nullptr) return false;
  info_ = png_create_info_struct(png_);
  if (info_ == nullptr) return false;
  png_set_read_fn(png_, this, take);
  // read_png_header() limits the sides.
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  // All chunks that no pixel needs: gamma would change gray, and others cost time and warnings.
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  // Some encoders say a smaller window of zlib than they use.
  png_set_option(png_, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
  png_read_info(png_, info_);
  transform(wanted);
  png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return failure_.empty();
}

void Reader::transform(const Wanted& wanted) {
  if (wanted.indices) {
    png_set_packing(png_);
    return;
  }
  const int type = png_get_color_type(png_, info_), depth = png_get_bit_depth(png_, info_);
  const bool colored = (type & PNG_COLOR_MASK_COLOR) != 0;
  const bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 ||
                         (colored && png_get_valid(png_, info_, PNG_INFO_tRNS) != 0);
  if (depth == 16 && wanted.depth == Depth::bytes) png_set_strip_16(png_);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
  if (!colored && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
  if (has_alpha && wanted.mode == ColorMode::as_stored) {
    png_set_tRNS_to_alpha(png_);
  } else {
    png_set_strip_alpha(png_);
  }
  const bool to_gray = wanted.mode == ColorMode::gray ||
                       (wanted.mode == ColorMode::as_stored && !colored && !has_alpha);
  constexpr int kNoError = 1;
  if (colored && to_gray) png_set_rgb_to_gray(png_, kNoError, 0.299, 0.587);
  if (colored && !to_gray) png_set_bgr(png_);
  if (!colored && !to_gray) png_set_gray_to_rgb(png_);
}

bool Reader::read(uint8_t* pixels, size_t row) {
  if (setjmp(escape_) != 0) return false;
  const bool interlaced = png_get_interlace_type(png_, info_) == PNG_INTERLACE_ADAM7;
  const int passes = interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  const png_uint_32 height = png_get_image_height(png_, info_);
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 h = 0; h < height; ++h) png_read_row(png_, pixels + h * row, nullptr);
  }
  png_read_end(png_, nullptr);
  return failure_.empty();
}

}  // namespace

std::optional<Image> PngDecoder::decode(std::string_view file, ColorMode mode, Depth depth) {
  Reader reader(file);
  reader.start({.mode = mode, .depth = depth});
  Image image = reader.shape();
  reader.read_pixels(bytes_);
  if (reader.sample_bytes() == 1) {
    image.bytes = bytes_.data();
    return image;
  }
  floats_.resize(static_cast<size_t>(image.count()));
  for (size_t i = 0; i < floats_.size(); ++i)
    floats_[i] = static_cast<float>(bytes_[2 * i] << 8 | bytes_[2 * i + 1]);
  image.floats = floats_.data();
  return image;
}

Image PngDecoder::indices(std::string_view file) {
  Reader reader(file);
  reader.start({.indices = true});
  Image image = reader.shape();
  reader.read_pixels(bytes_);
  image.bytes = bytes_.data();
  return image;
}

}  // namespace crema
