// What `crema help` prints, in the width of the terminal.
#pragma once

#include <string>
#include <vector>

#include "tools/command.hpp"

namespace crema::tools {

/// The commands, by groups.
void print_help();
/// A command: its usage, and its flags by groups.
void print_help(const Command& command);
/// Names beside those of commands that `crema help` takes: the topics (solver, net, data), and the
/// layer types that have a page.
std::vector<std::string> topic_names();
/// The settings of a topic, or the page of a layer type. False for other names.
bool print_topic(const std::string& name);

}  // namespace crema::tools
