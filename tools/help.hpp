// What `crema help` prints, in the width of the terminal.
#pragma once

#include <string>

#include "tools/command.hpp"

namespace crema::tools {

/// The commands, by groups.
void print_help();
/// A command: its usage, and its flags by groups.
void print_help(const Command& command);
/// The settings of a topic (solver, net, data), or the page of a layer type. False for other names.
bool print_topic(const std::string& name);

}  // namespace crema::tools
