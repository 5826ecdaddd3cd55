// Ctrl-C while a command writes: what it has written so far is removed.
#pragma once

#include <array>
#include <csignal>
#include <exception>

namespace crema::tools {

/// A signal asked the program to end. main() ends it by this signal once everything is cleaned up,
/// so that a script that called it ends, too. Not an Error: nothing may take it for a bad record.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "stopped by a signal"; }

 private:
  int signal_;
};

/// While one lives, SIGINT, SIGTERM, SIGHUP and SIGPIPE set a flag that check() turns into an
/// exception; a second signal, but for SIGPIPE, ends the program at once. Signals that are ignored
/// stay so. Only one may live at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Throws Interrupted if there was a signal.
  void check() const;

 private:
  std::array<struct sigaction, 4> before_;
};

}  // namespace crema::tools
