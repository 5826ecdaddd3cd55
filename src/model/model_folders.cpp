#include "model/model_folders.hpp"

#include <algorithm>
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

/// The names in a folder; none where it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end;
       entry.increment(none))
    names.push_back(entry->path().filename().string());
  return names;
}

/// "; did you mean 'models/lenet/deploy.prototxt'?" for a path below the folders of models: where
/// the model is there, the most similar name of its files, else the most similar model.
std::string nearest_model_file(const fs::path& rest, const std::vector<std::string>& folders) {
  const fs::path models = "models", model = *rest.begin();
  const fs::path file = rest.lexically_relative(model);
  std::vector<std::string> files, others;
  std::error_code none;
  for (const std::string& folder : folders) {
    const std::vector<std::string> beside = names_in((folder / rest).parent_path());
    files.insert(files.end(), beside.begin(), beside.end());
    for (const std::string& name : names_in(folder)) {
      if (fs::exists(fs::path(folder) / name / file, none)) others.push_back(name);
    }
  }
  fs::path nearest;
  if (const std::string name = nearest_name(rest.filename().string(), files); !name.empty()) {
    nearest = models / rest.parent_path() / name;
  } else if (const std::string other = nearest_name(model.string(), others); !other.empty()) {
    nearest = models / other / file;
  }
  return nearest.empty() ? "" : text("; did you mean '", nearest.string(), "'?");
}

/// "; 'models/vgg16' has 'deploy.prototxt', ..." for the first folder that has the model, or "".
std::string files_of_model(const fs::path& rest, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const std::string model = folder / *rest.begin();
    std::vector<std::string> files;
    for (const std::string& name : names_in(model)) {
      if (name.ends_with(".prototxt")) files.push_back(text("'", name, "'"));
    }
    if (files.empty()) continue;
    std::ranges::sort(files);
    const bool solver = rest.filename().string().find("solver") != std::string::npos;
    return text("; '", model, "' has ", joined(files),
                solver ? "; write a solver like models/lenet/solver.prototxt" : "");
  }
  return "";
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
  const fs::path rest = path_in_models(path);
  if (rest.empty() || fs::exists(path, none)) return {};
  std::vector<std::string> folders = {"models"};
  std::string content;
  for (const std::string& folder : model_path()) {
    if (fs::exists(folder / fs::path("models") / rest, none))
      return text("; ", kModelPath, " has '", folder, "', but should have '",
                  (fs::path(folder) / "models").string(), "'");
    content += text(content.empty() ? "; it is not in '" : ", '", folder, "'",
                    fs::is_directory(folder, none) ? "" : ", which is no folder");
    folders.push_back(folder);
  }
  if (const std::string nearest = nearest_model_file(rest, folders); !nearest.empty())
    return nearest;
  if (const std::string files = files_of_model(rest, folders); !files.empty()) return files;
  if (content.empty())
    content = text("; ", kModelPath, ", which may list more folders of models, is not set");
  return content;
}

}  // namespace crema
