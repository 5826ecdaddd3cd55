// Another program that a command runs and waits for.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

struct ChildResult {
  int reason = 0;    // an errno if it could not be started
  int status = 0;    // as waitpid() gives it
  std::string said;  // on standard output and standard error

  bool succeeded() const { return reason == 0 && status == 0; }
};

/// Runs the program, which is looked for in PATH, with these words. What it says goes to the result
/// and not to the terminal. Error if no pipe can be made.
ChildResult run_child(std::vector<std::string> words);

/// The beginning of the first line of a text, which says most, or of the last one.
std::string first_line(const std::string& text);
std::string last_line(std::string text);

}  // namespace crema::tools
