// The layer types of the published formats and of their forks, from layers/published_types.txt.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace crema {

/// The settings that a published type reads and that do not have its name, with spaces between
/// them, such as "convolution_param" of Deconvolution. Null if the type is not published. Written
/// by the build (scripts/cmake/rooms.cmake).
const std::string* published_type(const std::string& name);

/// The name of a type or a message without case and separators, "batchnorm" of BatchNorm,
/// batch_norm and BATCH-NORM: names that are equal so mean the same.
inline std::string bare_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  return text;
}

/// Whether layers of a type read the settings, such as "data_param" or "transform_param".
inline bool reads_settings(const std::string& type, std::string_view settings) {
  if (bare_name(type) + "param" == bare_name(settings)) return true;
  if (settings == "transform_param") return type.ends_with("Data") && type != "DummyData";
  const std::string* const others = published_type(type);
  if (others == nullptr) return false;
  const auto is_blank = [&](size_t place) {
    return place >= others->size() || (*others)[place] == ' ';
  };
  for (size_t at = others->find(settings); at != std::string::npos;
       at = others->find(settings, at + 1)) {
    if ((at == 0 || is_blank(at - 1)) && is_blank(at + settings.size())) return true;
  }
  return false;
}

}  // namespace crema
