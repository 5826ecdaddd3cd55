// `crema time --startup`: what a program does from its start to the first result of a net.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

/// Starts the program `starts` times with its own arguments, and once more first, which fills
/// caches; prints the medians of the parts of a start, as JSON too with `json`. In a program that
/// this started: measures the parts, and prints them for the one that waits. Error if the net
/// cannot be run.
void time_startup(int starts, bool json);

}  // namespace crema::tools
