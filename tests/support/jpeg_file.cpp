#include "support/jpeg_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "crema/random.hpp"

#if CREMA_BUILT_WITH_LIBJPEG
#include <jpeglib.h>
#endif

namespace crema::test {

std::vector<uint8_t> picture(int height, int width, int channels) {
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width * channels));
  Random random(7, 1);
  auto out = pixels.begin();
  for (int h = 0; h < height; ++h) {
    for (int w = 0; w < width; ++w) {
      for (int c = 0; c < channels; ++c) {
        double value = 128 + 60 * std::sin(h / 17.0 + c) + 50 * std::cos(w / 11.0 - 2 * c);
        if ((h / 23 + w / 31 + c) % 3 == 0) value = 255 - value;
        *out++ = static_cast<uint8_t>(std::clamp(value + 18 * random.gaussian(), 0.0, 255.0));
      }
    }
  }
  return pixels;
}

#if CREMA_BUILT_WITH_LIBJPEG
namespace {

/// An APP1 segment with one tag, the orientation.
std::vector<JOCTET> exif(int orientation) {
  const auto value = static_cast<JOCTET>(orientation);
  return {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42,    0, 8, 0, 0, 0, 1, 0,
          0x12, 1,   3,   0,   1, 0, 0,   0,   value, 0, 0, 0, 0, 0, 0, 0};
}

}  // namespace

std::string jpeg_file(const std::vector<uint8_t>& pixels, int height, int width,
                      const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = kind.channels;
  info.in_color_space = kind.channels == 1   ? JCS_GRAYSCALE
                        : kind.channels == 3 ? JCS_EXT_BGR
                                             : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.channels == 3) {
    info.comp_info[0].h_samp_factor = kind.across;
    info.comp_info[0].v_samp_factor = kind.down;
  }
  if (kind.progressive) jpeg_simple_progression(&info);
  info.restart_interval = static_cast<unsigned>(kind.restart);
  jpeg_start_compress(&info, TRUE);
  if (kind.orientation != 0) {
    const std::vector<JOCTET> tag = exif(kind.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, tag.data(), static_cast<unsigned>(tag.size()));
  }
  for (size_t row = 0; row < static_cast<size_t>(height); ++row) {
    auto* line =
        const_cast<JSAMPROW>(pixels.data() + row * static_cast<size_t>(width * kind.channels));
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}
#else
std::string jpeg_file(const std::vector<uint8_t>&, int, int, const JpegKind&) { return {}; }
#endif

}  // namespace crema::test
