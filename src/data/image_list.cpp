#include "data/image_list.hpp"

#include <charconv>
#include <fstream>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr std::string_view kBlank = " \t\r\v\f";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

ListedImage parse_line(std::string_view line) {
  const size_t blank = line.find_last_of(kBlank);
  if (blank == std::string_view::npos)
    throw Error("'", line, "' has no label; a line is the file's name, a blank and a number");
  const std::string_view number = line.substr(blank + 1);
  ListedImage image;
  image.file = trimmed(line.substr(0, blank));
  const char* const end = number.data() + number.size();
  const auto [stopped, code] = std::from_chars(number.data(), end, image.label);
  if (code != std::errc() || stopped != end)
    throw Error("the label '", number, "' of '", image.file,
                "' is no whole number of 32 bits; a line is the file's name, a blank and a number");
  return image;
}

}  // namespace

std::vector<ListedImage> read_image_list(const std::string& path) {
  std::ifstream file(path);
  if (!file.good())
    throw Error("cannot open the list '", path, "'; give a text file with lines 'file label'");
  std::vector<ListedImage> images;
  std::string text;
  for (int64_t line = 1; std::getline(file, text); ++line) {
    const std::string_view content = trimmed(text);
    if (content.empty()) continue;
    try {
      images.push_back(parse_line(content));
    } catch (Error& error) {
      error.at({path, static_cast<int>(line), 0});
      throw;
    }
    images.back().line = line;
  }
  // A folder opens, and fails at the first read.
  if (file.bad())
    throw Error("cannot read the list '", path, "'; give a text file with lines 'file label'");
  if (images.empty()) throw Error("the list '", path, "' is empty; give lines 'file label'");
  return images;
}

}  // namespace crema
