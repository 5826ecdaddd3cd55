// A command of the `crema` program. Each command is a file that defines one `Command`, and a line
// in commands.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"

namespace crema::tools {

/// What a command does with nets, which takes memory.
enum class NetUse : uint8_t { none, builds, runs };

struct Command {
  std::string name;                // "train"
  std::string summary;             // one line
  std::string usage;               // what `crema help NAME` prints below the summary
  std::vector<std::string> flags;  // gflags that the command takes, beside the common ones
  /// Positional arguments that follow the command. Returns the exit status.
  int (*run)(const std::vector<std::string>& arguments);
  int error_status = 1;  // exit status where it throws
  NetUse nets = NetUse::none;
};

struct ListedCommand {
  const Command* command;
  std::vector<std::string_view> published;  // the programs that it takes the place of
  std::string_view heading;                 // of its group in `crema help`
};
/// All commands in the order of `crema help`. The build makes the list of tools/commands.txt.
const std::vector<ListedCommand>& commands();

/// The command of a name: its own, with _ for -, or that of a published program, also with .bin
/// behind. Null if there is none.
const Command* find_command(const std::string& name);
/// The same; Error if there is none.
const Command& need_command(const std::string& name);

/// Lets CREMA_MODEL_PATH name the models that are installed beside this program, if there are any
/// and it is not set.
void use_installed_models();

/// For commands that take flags alone: Error that names the first argument. `instead` says what to
/// give, as "give the net with --model=FILE".
void refuse_arguments(std::string_view command, const std::vector<std::string>& arguments,
                      const std::string& instead);

}  // namespace crema::tools
