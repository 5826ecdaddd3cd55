#include "tools/processes.hpp"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "core/thread_limit.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/command_line.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DEFINE_double(
    rank_timeout, 300,
    "In several processes: seconds to wait for one that lives but takes no part, as while "
    "it writes to a slow disk. Then all of them end.");

namespace crema::tools {

Processes::Processes() {
  if (!(FLAGS_rank_timeout > 0))
    throw Error("--rank_timeout=", FLAGS_rank_timeout, " must be positive");
  communicator_ = join_processes({.patience = FLAGS_rank_timeout});
  if (is_first()) return;
  set_loudness(Loudness::silent);
  gflags::SetCommandLineOption("run_dir", "none");
}

void Processes::share_machine(ContextOptions& options) const {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const bool is_set = given != nullptr && *given != '\0';
  if (communicator_ == nullptr || options.threads > 0 || is_set) return;
  const Communicator::Process& own = communicator_->process(communicator_->rank());
  int sharing = 0;
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    const Communicator::Process& other = communicator_->process(rank);
    if (other.host == own.host && other.cores == own.cores) ++sharing;
  }
  options.threads = std::max(1, thread_limit().threads() / sharing);
}

int in_processes(const std::function<int(const Processes& processes)>& command) {
  const Processes processes;
  if (processes.communicator() == nullptr) return command(processes);
  Communicator& all = *processes.communicator();
  try {
    return command(processes);
  } catch (const std::exception& error) {
    std::cerr << "crema: " << all.name_of(all.rank()) << ": " << printable_message(error.what())
              << std::endl;
    all.abort(1);
    throw;  // for the compiler
  }
}

}  // namespace crema::tools
