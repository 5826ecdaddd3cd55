#include "tools/data_advice.hpp"

#include <filesystem>
#include <regex>

#include "crema/error.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the model that comes with Crema and whose file the message begins with, or "".
fs::path model_of(const std::string& message) {
  static const std::regex model("^((?:[^:' ]*/)?models/[^/:' ]+)/");
  std::smatch found;
  std::error_code none;
  if (!std::regex_search(message, found, model)) return {};
  return fs::exists(fs::path(found.str(1)) / "README.md", none) ? found.str(1) : "";
}

bool has_plain_or_gzip(const fs::path& folder, const std::string& file) {
  std::error_code none;
  return fs::exists(folder / file, none) || fs::exists(folder / (file + ".gz"), none);
}

bool is_empty_or_missing(const fs::path& folder) {
  std::error_code none;
  return !fs::exists(folder, none) || fs::is_empty(folder, none);
}

/// What brings the file `missing` of the data set in the folder `set`, or "" where that takes more
/// than one command. The working folder has the scripts in the repository.
std::string commands_for(const fs::path& set, const fs::path& missing) {
  const fs::path part = missing.parent_path();
  const std::string name = missing.filename().string();
  if (name.ends_with("_lmdb") || name.ends_with("_leveldb")) {
    if (has_plain_or_gzip(part, "train-images-idx3-ubyte"))
      return concat("crema convert-mnist ", part.string());
    if (has_plain_or_gzip(part, "data_batch_1.bin"))
      return concat("crema convert-cifar ", part.string());
  }
  std::string commands;
  if (!is_empty_or_missing(part)) return commands;  // the scripts have run
  std::error_code none;
  for (const char* script : {"get.sh", "make.py", "make.sh"}) {
    if (const fs::path path = set / script; fs::exists(path, none))
      commands += concat(commands.empty() ? "" : ", then ", path.string());
  }
  return commands;
}

}  // namespace

std::string advice_on_missing_data(const std::string& message) {
  static const std::regex path("'(data/[^/']+)/([^']*)'");
  std::error_code none;
  const fs::path model = model_of(message);
  const std::string page = (model / "README.md").string();
  for (std::sregex_iterator found(message.begin(), message.end(), path), end; found != end;
       ++found) {
    const fs::path set = found->str(1), missing = set / found->str(2);
    if (fs::exists(missing, none)) continue;
    const std::string commands = commands_for(set, missing);
    if (!commands.empty())
      return concat("; ", commands, " brings it",
                    model.empty() ? "" : concat(" (", page, " has all commands)"));
    if (model.empty()) continue;
    if (fs::exists(set, none)) return concat("; ", page, " has the commands that make it");
    return concat("; run crema in the root of Crema's repository, whose ", set.string(),
                  " brings this data set (", page, " has all commands)");
  }
  return {};
}

}  // namespace crema::tools
