// In place of OpenCV, in a build without it.
#include "data/images/image_codec.hpp"

#include "crema/error.hpp"

namespace crema {
namespace {

[[noreturn]] void fail() {
  throw Error(
      "this build cannot read or write compressed images of this kind: it was configured with "
      "CREMA_OPENCV=OFF; build with CREMA_OPENCV=ON (CREMA_LIBJPEG=ON and CREMA_LIBPNG=ON alone "
      "read "
      "JPEG and PNG files), or use raw records");
}

}  // namespace

struct ImageCodec::State {};

ImageCodec::ImageCodec() = default;
ImageCodec::~ImageCodec() = default;
Image ImageCodec::decode(std::string_view, ColorMode, Depth) { fail(); }
std::string ImageCodec::encode(const Image&, const std::string&) { fail(); }

}  // namespace crema
