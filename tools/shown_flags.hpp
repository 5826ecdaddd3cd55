// Flags as manual pages and the completion of shells show them.
#pragma once

#include <string>
#include <vector>

#include "tools/command.hpp"

namespace crema::tools {

enum class FlagValue : uint8_t { none, words, file, folder, number, text };

struct ShownFlag {
  std::string name;
  std::string description;
  std::string default_value;       // "" where the description says what happens without the flag
  FlagValue takes;                 // none: a switch
  std::vector<std::string> words;  // of FlagValue::words

  bool is_on_by_default() const { return takes == FlagValue::none && default_value == "true"; }
  /// The first sentence of the description, without its full stop.
  std::string summary() const;
};

/// What a flag's description says of a command. That of a flag that several commands share may end
/// with parts for some of them, "Of classify: ... Of train and test: ... Of others: ...".
std::string words_for(const std::string& description, const std::string& command);
/// The command's own flags, in the order of `crema help`.
std::vector<ShownFlag> own_flags(const Command& command);
/// The flags that each command takes, but --help and --version, which end the program.
std::vector<ShownFlag> shared_flags();

}  // namespace crema::tools
