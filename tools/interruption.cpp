#include "tools/interruption.hpp"

namespace crema::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t received = 0;

void on_signal(int signal) {
  // Each line that is printed to a closed pipe gives one SIGPIPE.
  if (received != 0 && signal != SIGPIPE) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received = signal;
}

}  // namespace

Interruption::Interruption() {
  received = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i], &action, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &before_[i], nullptr);
  }
}

Interruption::~Interruption() {
  for (size_t i = 0; i < before_.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

void Interruption::check() const {
  if (received != 0) throw Interrupted(received);
}

}  // namespace crema::tools
