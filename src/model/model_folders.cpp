#include "model/model_folders.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace crema {
namespace {

constexpr std::string_view kModels = "models/";

/// Without "./" in front.
std::string_view plain(std::string_view path) {
  while (path.starts_with("./")) path.remove_prefix(2);
  return path;
}

}  // namespace

std::vector<std::string> model_path() {
  const char* const text = std::getenv(kModelPath);
  std::string_view rest = text != nullptr ? text : "";
  std::vector<std::string> folders;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

std::string find_model_file(const std::string& path) {
  const std::string_view name = plain(path);
  std::error_code none;
  if (!name.starts_with(kModels) || std::filesystem::exists(path, none)) return path;
  for (const std::string& folder : model_path()) {
    const auto found = std::filesystem::path(folder) / name.substr(kModels.size());
    if (std::filesystem::exists(found, none)) return found.string();
  }
  return path;
}

}  // namespace crema
