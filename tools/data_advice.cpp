#include "tools/data_advice.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

#include "model/model_folders.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the model that comes with Crema and that the file belongs to, or "".
fs::path model_of(const fs::path& file) {
  // The last folder "models" of the path: the repository may lie in another.
  fs::path model, folder = file.parent_path();
  for (; folder.has_relative_path() && model.empty(); folder = folder.parent_path()) {
    if (folder.parent_path().filename() == "models") model = folder;
  }
  std::error_code none;
  return fs::exists(model / "README.md", none) ? model : "";
}

/// A file of a data set: data/NAME/...
struct DataFile {
  fs::path set;   // data/NAME
  fs::path path;  // data/NAME/...
};

/// The path, if it is of a file of a data set and leads to nothing.
std::optional<DataFile> missing_data(const std::string& path) {
  constexpr std::string_view kData = "data/";
  if (!path.starts_with(kData)) return std::nullopt;
  const size_t end = path.find('/', kData.size());
  std::error_code none;
  if (end == std::string::npos || end == kData.size() || fs::exists(path, none))
    return std::nullopt;
  return DataFile{path.substr(0, end), path};
}

bool has_plain_or_gzip(const fs::path& folder, const std::string& file) {
  std::error_code none;
  return fs::exists(folder / file, none) || fs::exists(folder / (file + ".gz"), none);
}

bool is_empty_or_missing(const fs::path& folder) {
  std::error_code none;
  return !fs::exists(folder, none) || fs::is_empty(folder, none);
}

/// The command that makes the database from the files beside it, or "".
std::string converter_for(const fs::path& database) {
  const std::string name = database.filename().string();
  const size_t end = name.rfind('_');
  if (end == std::string::npos) return {};
  const std::string part = name.substr(0, end), backend = name.substr(end);
  if (backend != "_lmdb" && backend != "_leveldb") return {};
  const fs::path folder = database.parent_path();
  std::string command;
  if ((part == "train" || part == "test") && has_plain_or_gzip(folder, "train-images-idx3-ubyte"))
    command = "crema convert-mnist ";
  if ((part == "cifar10_train" || part == "cifar10_test") &&
      has_plain_or_gzip(folder, "data_batch_1.bin"))
    command = "crema convert-cifar ";
  if (command.empty()) return {};
  return text(command, backend == "_leveldb" ? "--backend leveldb " : "", folder.string());
}

/// The scripts that make the data set, if they have not run. They write to the folder "full".
std::string scripts_for(const DataFile& file) {
  std::string commands;
  const fs::path full = file.set / "full";
  const fs::path rest = file.path.lexically_relative(full);
  const bool inside = !rest.empty() && *rest.begin() != ".." && *rest.begin() != ".";
  if (!inside || !is_empty_or_missing(full)) return commands;
  std::error_code none;
  for (const char* script : {"get.sh", "make.py", "make.sh"}) {
    if (const fs::path path = file.set / script; fs::exists(path, none))
      commands += text(commands.empty() ? "" : ", then ", path.string());
  }
  return commands;
}

/// The folder data beside one of models that has the data set, or "".
fs::path data_beside_models(const fs::path& set) {
  for (const std::string& models : model_path()) {
    const fs::path folder = (fs::path(models) / "..").lexically_normal();
    std::error_code none;
    if (fs::exists(folder / set, none)) return folder / "data";
  }
  return {};
}

/// Whether the file belongs to a model, not to a data set, wherever it lies.
bool is_model_file(const fs::path& file) {
  const fs::path extension = file.extension();
  const fs::path kind = extension == ".h5" ? file.stem().extension() : extension;
  return kind == ".caffemodel" || kind == ".solverstate" ||
         (kind == ".prototxt" && file.filename() != "labelmap.prototxt");
}

}  // namespace

std::string advice_on_missing_data(const Error& error) {
  const std::optional<DataFile> file = missing_data(error.path());
  if (!file || is_model_file(file->path)) return {};
  const fs::path model = model_of(error.position().file);
  const std::string page = (model / "README.md").string();
  const std::string all = model.empty() ? "" : text(" (", page, " has all commands)");
  if (const std::string command = converter_for(file->path); !command.empty())
    return text("; ", command, " makes it", all);
  if (const std::string scripts = scripts_for(*file); !scripts.empty())
    return text("; ", scripts, " brings the data set", all);
  std::error_code none;
  const bool has_set = fs::exists(file->set, none);
  if (const fs::path data = data_beside_models(file->set); !has_set && !data.empty())
    return text("; cp -r ", data.string(), " . brings ", file->set.string(), all);
  if (model.empty()) return {};
  if (has_set) return text("; ", page, " has the commands that make it");
  return text("; run crema in the root of Crema's repository, whose ", file->set.string(),
              " brings the data set", all);
}

}  // namespace crema::tools
