#include "data/image_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace crema {

using namespace std::string_view_literals;

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

std::string image_type(std::string_view file) {
  constexpr std::pair<std::string_view, const char*> kMarks[] = {
      {"\xff\xd8\xff"sv, "jpg"},
      {"\x89PNG"sv, "png"},
      {"BM"sv, "bmp"},
      {"GIF8"sv, "gif"},
      {"II*\0"sv, "tif"},
      {"MM\0*"sv, "tif"},
      {"\0\0\0\x0cjP  "sv, "jp2"},
      {"\xff\x4f\xff\x51"sv, "jp2"},
  };
  for (const auto& [mark, type] : kMarks) {
    if (file.starts_with(mark)) return type;
  }
  if (file.starts_with("RIFF"sv) && file.substr(0, 12).ends_with("WEBP"sv)) return "webp";
  const bool is_pnm = file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
                      std::isspace(static_cast<unsigned char>(file[2])) != 0;
  return is_pnm ? "pnm" : "";
}

}  // namespace crema
