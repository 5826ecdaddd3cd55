// In place of libjpeg-turbo, in a build without it: every file is ImageCodec's.
#include "data/images/jpeg_decoder.hpp"

namespace crema {

struct JpegDecoder::State {};

JpegDecoder::JpegDecoder() = default;
JpegDecoder::JpegDecoder(std::unique_ptr<DeviceJpeg>) {}
JpegDecoder::~JpegDecoder() = default;
std::optional<Image> JpegDecoder::open(std::string_view, ColorMode) { return std::nullopt; }
std::optional<Image> JpegDecoder::pixels(const ImageWindow&, int) { return std::nullopt; }
void JpegDecoder::check(std::string_view) {}

}  // namespace crema
