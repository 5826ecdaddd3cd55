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

/// What brings the data set in the folder `set`, whose missing file is in the folder `part` below.
/// The working folder has the scripts in the repository.
std::string commands_for(const fs::path& set, const fs::path& part) {
  std::error_code none;
  if (fs::exists(part / "train-images-idx3-ubyte.gz", none))
    return concat("crema convert-mnist ", part.string());
  if (fs::exists(part / "data_batch_1.bin", none))
    return concat("crema convert-cifar ", part.string());
  std::string commands;
  for (const char* name : {"get.sh", "make.py", "make.sh"}) {
    if (const fs::path script = set / name; fs::exists(script, none))
      commands += concat(commands.empty() ? "" : ", then ", script.string());
  }
  return commands;
}

}  // namespace

std::string advice_on_missing_data(const std::string& message) {
  static const std::regex path("'(data/[^/']+)/([^']*)'");
  std::error_code none;
  const fs::path model = model_of(message);
  const std::string page =
      model.empty() ? "" : concat(" (", (model / "README.md").string(), " has all commands)");
  for (std::sregex_iterator found(message.begin(), message.end(), path), end; found != end;
       ++found) {
    const fs::path set = found->str(1), missing = set / found->str(2);
    if (fs::exists(missing, none)) continue;
    const std::string commands = commands_for(set, missing.parent_path());
    if (!commands.empty()) return concat("; ", commands, " brings this data set", page);
    if (!model.empty())
      return concat("; run crema in the root of Crema's repository, whose ", set.string(),
                    " brings this data set", page);
  }
  return {};
}

}  // namespace crema::tools
