// The words of the command line. gflags keeps the flags' values; reading and checking are done
// here, since gflags ends the program at the first mistake, in words of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/command.hpp"

namespace crema::tools {

struct CommandLine {
  struct Flag {
    std::string name;                  // without dashes, its parts joined by _
    std::optional<std::string> value;  // none: the word was the name alone
  };
  std::vector<Flag> flags;
  std::vector<std::string> arguments;  // all other words, the command's name first

  bool has_flag(const std::string& name) const;
};

/// The flag as it is written: "--model", and "-o" with one letter.
std::string spelled_flag(const std::string& name);

/// Tells flags from arguments. A flag is -NAME or --NAME, spelled with - or _, with =VALUE or,
/// where it is none of yes and no, with the value as the next word. Behind a word -- all are
/// arguments.
CommandLine read_command_line(const std::vector<std::string>& words);

/// The flags that each command takes beside its own.
const std::vector<std::string>& common_flags();

/// Gives gflags what the line says. Error for a flag that the command does not take, and for a
/// value that the flag cannot have, as an empty text is for most; by a published name that is none
/// of ours, such as convert_imageset, an empty text counts as not given.
void set_flags(const Command& command, const CommandLine& line);

/// Whether the program is called by the name of the published one, caffe, as through a link.
bool called_as_caffe();

}  // namespace crema::tools
