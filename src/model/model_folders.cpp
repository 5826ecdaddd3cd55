#include "model/model_folders.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "crema/error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

/// The rest of a path that lies in models/; empty for other paths.
fs::path path_in_models(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  if (plain.is_absolute() || plain.empty() || *plain.begin() != "models") return {};
  return plain.lexically_relative("models");
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
  const fs::path rest = path_in_models(path);
  std::error_code none;
  if (rest.empty() || fs::exists(path, none)) return path;
  for (const std::string& folder : model_path()) {
    const fs::path found = folder / rest;
    if (fs::exists(found, none)) return found.string();
  }
  return path;
}

std::string where_models_were_sought(const std::string& path) {
  std::error_code none;
  if (path_in_models(path).empty() || fs::exists(path, none)) return {};
  std::string folders;
  for (const std::string& folder : model_path())
    folders += concat(folders.empty() ? "'" : ", '", folder, "'");
  if (folders.empty())
    return concat("; ", kModelPath, ", which may list more folders of models, is not set");
  return concat("; ", kModelPath, " lists ", folders, ", where it is not either");
}

}  // namespace crema
