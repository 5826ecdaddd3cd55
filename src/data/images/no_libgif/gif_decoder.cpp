// In place of giflib, in a build without it.
#include "data/images/gif_decoder.hpp"

#include "crema/error.hpp"

namespace crema {

Image GifDecoder::decode(std::string_view, ColorMode) {
  throw Error(
      "GIF is not supported by this build; convert the image to PNG or JPEG, or configure with "
      "CREMA_LIBGIF=ON, which needs giflib (on Debian and Ubuntu: apt install libgif-dev)");
}

}  // namespace crema
