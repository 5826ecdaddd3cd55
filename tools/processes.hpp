// What a command does in each of the processes that mpirun or srun has started.
#pragma once

#include <functional>
#include <memory>

#include "crema/context.hpp"
#include "parallel/communicator.hpp"

namespace crema::tools {

class Processes {
 public:
  /// Joins the others, where there are any. The first one speaks for all: the others say nothing
  /// but why they fail, and have no folder of a run.
  Processes();

  /// Null: this process is alone.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  bool is_first() const { return communicator_ == nullptr || communicator_->rank() == 0; }
  /// Where several processes may use the same cores and no number of threads is given: each gets
  /// its share of them.
  void share_machine(ContextOptions& options) const;

 private:
  std::shared_ptr<Communicator> communicator_;
};

/// Runs the command. Where it fails in one of several processes, that one says why, and ends all.
int in_processes(const std::function<int(const Processes& processes)>& command);

}  // namespace crema::tools
