#include "data/databases/record_image.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <utility>

#include "crema/error.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_decoder.hpp"
#include "data/images/image_name.hpp"

namespace crema {
namespace {

/// Whether all values are those of pixels of 16 bits, as convert_imageset() keeps them.
bool are_deep_pixels(const Image& image) {
  return std::all_of(image.floats, image.floats + image.count(), [](float value) {
    return value >= 0 && value <= 65535 && std::trunc(value) == value;
  });
}

/// The raw pixels as a PPM or PGM file, which any codec reads.
std::string netpbm_of(const RecordInfo& info, bool rgb) {
  const int64_t channels = info.shape[0], plane = info.shape.count(1);
  std::string file = text(channels == 3 ? "P6" : "P5", "\n", info.shape[2], " ", info.shape[1],
                          "\n", info.floats ? 65535 : 255, "\n");
  file.reserve(file.size() + 2 * static_cast<size_t>(info.shape.count()));
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = (rgb ? c : channels - 1 - c) * plane + i;
      if (info.floats) {
        const auto value = static_cast<unsigned>(info.image.floats[from]);
        file += static_cast<char>(value >> 8);
        file += static_cast<char>(value & 255);
      } else {
        file += static_cast<char>(info.image.bytes[from]);
      }
    }
  }
  return file;
}

RecordImage of_compressed(RecordInfo& info, const std::string& type) {
  if (!info.file_type.empty() && (type.empty() || type == info.file_type))
    return {info.file_type, std::move(info.file)};
  ImageDecoder decoder;
  decoder.open(info.file, ColorMode::as_stored, Depth::own);
  const std::string made = type.empty() ? "png" : type;
  return {made, ImageCodec::encode(decoder.whole(), made)};
}

RecordImage of_raw(const RecordInfo& info, const std::string& type, bool rgb) {
  if (info.floats && !are_deep_pixels(info.image))
    throw Error("record '", info.key, "' holds floats, which is no image");
  if (info.shape[0] != 1 && info.shape[0] != 3)
    throw Error("record '", info.key, "' has ", info.shape[0], " channels, and image files 1 or 3");
  ImageCodec codec;
  const Image image = codec.decode(netpbm_of(info, rgb), ColorMode::as_stored, Depth::own);
  const std::string made = type.empty() ? "png" : type;
  return {made, ImageCodec::encode(image, made)};
}

}  // namespace

RecordImage image_of(RecordInfo& info, const std::string& type, bool rgb) {
  return info.encoded ? of_compressed(info, type) : of_raw(info, type, rgb);
}

std::string file_name_of(std::string_view key) {
  constexpr size_t kLongest = 200;
  const size_t dot = key.rfind('.');
  if (dot > 0 && is_image_name(key)) key = key.substr(0, dot);
  if (key.size() > kLongest) key = key.substr(key.size() - kLongest);
  std::string name(key);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!std::isalnum(byte) && byte < 0x80 && std::strchr("._- ", c) == nullptr) c = '_';
    if (c == '\0') c = '_';
  }
  if (name.empty()) return "_";
  if (std::strchr(".- ", name.front()) != nullptr) name.front() = '_';
  if (name.back() == ' ') name.back() = '_';
  return name;
}

std::string_view short_path(std::string_view key) {
  const size_t name = key.rfind('/');
  if (name == std::string_view::npos || name == 0) return key;
  const size_t folder = key.find_last_of("/ ", name - 1);
  return folder == std::string_view::npos ? key : key.substr(folder + 1);
}

}  // namespace crema
