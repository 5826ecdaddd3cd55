// In place of libpng, in a build without it: pixels of every file are ImageCodec's, and it knows no
// indices.
#include "data/images/png_decoder.hpp"

#include "crema/error.hpp"

namespace crema {

std::optional<Image> PngDecoder::decode(std::string_view, ColorMode, Depth) { return std::nullopt; }

Image PngDecoder::indices(std::string_view) {
  throw Error(
      "the indices of a PNG's palette are not supported by this build; convert the image to gray, "
      "or configure with CREMA_LIBPNG=ON, which needs libpng (on Debian and Ubuntu: apt install "
      "libpng-dev)");
}

}  // namespace crema
