#include "data/image_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace crema {

std::string image_extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  const size_t slash = name.rfind('/');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) return {};
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == "jpeg" ? "jpg" : extension;
}

bool is_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 9> kKinds = {"jpg", "png", "bmp",  "ppm", "pgm",
                                                      "pnm", "tif", "tiff", "webp"};
  return std::ranges::count(kKinds, image_extension(name)) > 0;
}

}  // namespace crema
