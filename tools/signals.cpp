#include "tools/signals.hpp"

namespace crema::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;  // the first SIGINT or SIGTERM
volatile std::sig_atomic_t hung_up = 0;
volatile std::sig_atomic_t interrupt_stops = 0;
volatile std::sig_atomic_t pipe_closed = 0;
bool was_hung_up = false;  // and take() asked for a stop; no handler sets it

void on_interrupt(int signal) {
  if (interrupted && interrupt_stops) {
    // The user asked twice to stop: do not make him wait for the iteration to end.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (!interrupted) interrupted = signal;
}

void on_hangup(int) { hung_up = 1; }

// Each line that is printed to a closed pipe gives one more.
void on_closed_pipe(int) { pipe_closed = 1; }

SolverAction effect(const char* flag, const std::string& name) {
  if (name == "snapshot") return SolverAction::snapshot;
  if (name == "stop") return SolverAction::stop;
  if (name == "none") return SolverAction::none;
  throw Error("--", flag, " ", name, " is unknown; use snapshot, stop or none");
}

struct Handler {
  int signal;
  void (*handle)(int);
};
constexpr Handler kHandlers[] = {{SIGINT, on_interrupt},
                                 {SIGTERM, on_interrupt},
                                 {SIGHUP, on_hangup},
                                 {SIGPIPE, on_closed_pipe}};

}  // namespace

void check_signal_effects(const std::string& sigint_effect, const std::string& sighup_effect) {
  effect("sigint_effect", sigint_effect);
  effect("sighup_effect", sighup_effect);
}

SignalActions::SignalActions(const std::string& sigint_effect, const std::string& sighup_effect)
    : sigint_(effect("sigint_effect", sigint_effect)),
      sighup_(effect("sighup_effect", sighup_effect)) {
  interrupted = 0;
  hung_up = 0;
  was_hung_up = false;
  interrupt_stops = sigint_ == SolverAction::stop;
  pipe_closed = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    const auto [signal, handle] = kHandlers[i];
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, &before_[i]);
    // Whoever ignores closed pipes, as systemd does for its services, wants the run to go on.
    if (signal == SIGPIPE && before_[i].sa_handler == SIG_IGN)
      sigaction(signal, &before_[i], nullptr);
  }
}

SignalActions::~SignalActions() {
  for (size_t i = 0; i < before_.size(); ++i) {
    sigaction(kHandlers[i].signal, &before_[i], nullptr);
  }
}

SolverAction SignalActions::take() const {
  const bool interrupt = interrupted, hangup = hung_up;
  if (interrupt && sigint_ != SolverAction::stop) interrupted = 0;
  if (hangup) hung_up = 0;
  if (hangup && sighup_ == SolverAction::stop) was_hung_up = true;
  if (pipe_closed) return SolverAction::stop;  // nobody reads what the run says any more
  const SolverAction first = interrupt ? sigint_ : SolverAction::none;
  const SolverAction second = hangup ? sighup_ : SolverAction::none;
  if (first == SolverAction::stop || second == SolverAction::stop) return SolverAction::stop;
  return first == SolverAction::none ? second : first;
}

int SignalActions::stopped_by() const {
  if (interrupted && sigint_ == SolverAction::stop) return interrupted;
  if (was_hung_up) return SIGHUP;
  return pipe_closed ? SIGPIPE : 0;
}

}  // namespace crema::tools
