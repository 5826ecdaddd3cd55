// SIGINT, SIGTERM, SIGHUP and SIGPIPE, as requests to the solver.
#pragma once

#include <array>
#include <csignal>
#include <string>

#include "crema/solver.hpp"

namespace crema::tools {

/// Error unless both are "snapshot", "stop" or "none".
void check_signal_effects(const std::string& sigint_effect, const std::string& sighup_effect);

/// While one lives, the signals set a flag that take() turns into an action. With the effect
/// "stop", a second SIGINT or SIGTERM ends the program at once. SIGPIPE, which comes when the
/// reader of the messages has ended (tee, at Ctrl-C), asks for a stop whatever the effects are,
/// counts as no SIGINT, and stays ignored if it was. What the signals did before comes back with
/// its end. Only one may live at a time.
class SignalActions {
 public:
  /// Effects as check_signal_effects takes them.
  SignalActions(const std::string& sigint_effect, const std::string& sighup_effect);
  ~SignalActions();
  SignalActions(const SignalActions&) = delete;
  SignalActions& operator=(const SignalActions&) = delete;

  /// What the signals since the last call ask for.
  SolverAction take() const;
  /// The signal for which take() asked for a stop; 0: none did.
  int stopped_by() const;

 private:
  SolverAction sigint_, sighup_;
  std::array<struct sigaction, 4> before_;
};

}  // namespace crema::tools
