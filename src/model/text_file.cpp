#include "model/text_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/whole_file.hpp"

namespace crema {

void write_text_atomically(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.append(text);
  file.finish();
}

void write_text_unsynced(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.append(text);
  file.finish_unsynced();
}

std::optional<std::string> text_of_file(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return std::nullopt;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  std::string all(static_cast<size_t>(std::max<std::streamoff>(in.tellg(), 0)), '\0');
  in.seekg(0);
  in.read(all.data(), static_cast<std::streamsize>(all.size()));
  if (in.bad()) return std::nullopt;
  all.resize(static_cast<size_t>(in.gcount()));
  return all;
}

}  // namespace crema
