// Runs the program on a terminal of its own.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "tools/cli.hpp"

namespace crema::test {

/// A variable of the environment, or none, while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// On a terminal with so many columns; 0: one that does not say.
inline Output run_on_terminal(const std::string& arguments, unsigned short columns = 0) {
  int terminal = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, columns > 0 ? &size : nullptr);
  if (child == 0) {
    const std::string command = CREMA_TOOL " " + arguments;
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  Output output;
  std::array<char, 4096> buffer;
  // A terminal that nobody writes to any more ends with an error.
  for (ssize_t n = 0; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;) {
    output.text.append(buffer.data(), static_cast<size_t>(n));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace crema::test
