#include "tools/command.hpp"

#include <algorithm>

namespace crema::tools {
namespace {

/// Published programs separate words by _, ours by -.
std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The name of the command for which a published program stands, with or without .bin; other names
/// with dashes.
std::string command_name(std::string name) {
  if (const std::string_view bin = ".bin"; name.ends_with(bin)) {
    name.resize(name.size() - bin.size());
  }
  for (const ListedCommand& listed : commands()) {
    if (std::ranges::count(listed.published, name) > 0) return listed.command->name;
  }
  return with_dashes(name);
}

}  // namespace

const Command* find_command(const std::string& name) {
  const std::string wanted = command_name(name);
  for (const ListedCommand& listed : commands()) {
    if (listed.command->name == wanted) return listed.command;
  }
  return nullptr;
}

const Command& need_command(const std::string& name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string> names = {"help"};
  for (const ListedCommand& listed : commands()) names.push_back(listed.command->name);
  const std::string hint = nearest_name(with_dashes(name), names);
  throw Error("there is no command '", name, "'",
              hint.empty() ? ";" : "; did you mean '" + hint + "'?", " `crema help` lists them");
}

}  // namespace crema::tools
