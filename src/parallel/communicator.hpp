// Communicator: the processes that train together. Each has a rank, from 0 on.
//
// A communicator has a thread of its own, which moves and sums up data while the caller computes.
// What is started is done in the order in which it was started. All processes have to start the
// same in the same order, with the same sizes.
//
// Sums are computed element by element in the order of the ranks: they have the same bits on all
// ranks and in each run, whatever else is reduced with an element.
//
// Failures: a process that ends, or that is not heard from, is an Error that names it and its
// machine, in the next call here and in each one behind it. Nobody can go on then. A process that
// fails by itself has to end the others by abort().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crema/layout.hpp"

namespace crema {

/// One thread at a time may use a communicator.
class Communicator {
 public:
  struct Process {
    std::string host;
    int64_t pid = 0;
    std::string cores;  // those that it may use, as the system writes them ("0-3")
  };
  /// Of what was started.
  using Ticket = uint64_t;
  struct Reduction {
    void* values = nullptr;  // replaced by the sums
    int64_t count = 0;
    DType dtype = DType::f32;  // or f64
    double factor = 1;         // on the sums
    /// f32 values are moved as bf16; the sums are computed in f32.
    bool as_bf16 = false;
  };

  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(processes_.size()); }
  const Process& process(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  /// "rank 1 (host b, process 4711)".
  std::string name_of(int rank) const;

  /// Memory that is given to a start function belongs to the communicator until wait() returns.
  virtual Ticket start_all_reduce(const Reduction& reduction) = 0;
  /// Of `bytes` bytes, from rank `root` to all others.
  virtual Ticket start_broadcast(void* data, size_t bytes, int root) = 0;
  /// Sends to `partner` what it receives, and receives what it sends; both call this.
  virtual Ticket start_exchange(int partner, const void* send, void* receive, size_t bytes) = 0;
  /// The text of each rank, in order; `result` is sized by this. Texts are below 1 GiB.
  virtual Ticket start_all_gather(std::string own, std::vector<std::string>& result) = 0;
  /// Returns when that is done, and all that was started before. Error if it cannot be done.
  virtual void wait(Ticket ticket) = 0;

  /// Ends all processes at once, this one too, with that exit status. For a process that fails.
  [[noreturn]] virtual void abort(int status) = 0;

  // The same, done when they return.
  void all_reduce(const Reduction& reduction) { wait(start_all_reduce(reduction)); }
  void broadcast(void* data, size_t bytes, int root) { wait(start_broadcast(data, bytes, root)); }
  void broadcast(std::string& text, int root);
  std::vector<std::string> all_gather(std::string own);
  /// The greatest of the values of all ranks.
  int greatest(int value);

 protected:
  int rank_ = 0;
  std::vector<Process> processes_;
};

struct JoinOptions {
  /// Seconds without a sign of life of a process until it counts as lost.
  double lost_after = 10;
  /// Seconds that a call waits for a process that lives, but takes no part.
  double patience = 300;
};

/// How many processes a launcher (mpirun, srun) has started, this one among them; 1 without one.
int launched_processes();
/// Joins the processes of the launcher; null where launched_processes() is 1. May be called once in
/// a process. Error in a build without MPI.
std::shared_ptr<Communicator> join_processes(const JoinOptions& options = {});

}  // namespace crema
