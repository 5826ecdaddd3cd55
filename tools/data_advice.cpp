#include "tools/data_advice.hpp"

#include <filesystem>
#include <regex>

#include "crema/error.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// " (models/NAME/README.md has all commands)" for the model whose file the message begins with.
std::string page_of_model(const std::string& message) {
  static const std::regex model("^(models/[^/:' ]+)/");
  std::smatch found;
  std::error_code none;
  if (!std::regex_search(message, found, model)) return {};
  const fs::path page = fs::path(found.str(1)) / "README.md";
  return fs::exists(page, none) ? concat(" (", page.string(), " has all commands)") : "";
}

}  // namespace

std::string advice_on_missing_data(const std::string& message) {
  static const std::regex path("'(data/[^/']+)/[^']*'");
  std::error_code none;
  for (std::sregex_iterator found(message.begin(), message.end(), path), end; found != end;
       ++found) {
    const std::string quoted = found->str(0);
    if (fs::exists(quoted.substr(1, quoted.size() - 2), none)) continue;
    for (const char* name : {"get.sh", "make.py", "make.sh"}) {
      const fs::path script = fs::path(found->str(1)) / name;
      if (fs::exists(script, none))
        return concat("; ", script.string(), " brings this data set", page_of_model(message));
    }
  }
  return {};
}

}  // namespace crema::tools
