// The program crema, for main() and for a process of Python.
#pragma once

namespace crema::tools {

/// Runs the command that the words name, once in a process. Returns the exit status. Prints errors.
int run_program(int argc, char** argv);

}  // namespace crema::tools
