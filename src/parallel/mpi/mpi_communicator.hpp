// The communicator of MPI. Its thread makes all calls of MPI, from MPI_Init_thread to MPI_Finalize,
// so MPI needs to know of no other thread (MPI_THREAD_FUNNELED). Messages go from process to
// process: the order of the sums is that of operations.hpp, whatever the library does elsewhere.
//
// Each process sends a sign of life to the next one, and listens for that of the one before. A
// process that stopped, or whose network was cut, is an Error for the one behind it, which ends
// all.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/communicator.hpp"
#include "parallel/mpi/operations.hpp"

namespace crema {

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const JoinOptions& options);
  /// Waits for the others to end, too, unless one was lost.
  ~MpiCommunicator() override;

  Ticket start_all_reduce(const Reduction& reduction) override;
  Ticket start_broadcast(void* data, size_t bytes, int root) override;
  Ticket start_exchange(int partner, const void* send, void* receive, size_t bytes) override;
  Ticket start_all_gather(std::string own, std::vector<std::string>& result) override;
  void wait(Ticket ticket) override;
  [[noreturn]] void abort(int status) override;

 private:
  using Clock = std::chrono::steady_clock;

  /// The thread: joins, does what is started, and leaves.
  void run();
  void join();
  void work();
  void leave();
  void run_operation(Operation& operation);
  /// Sends and looks for signs of life. Error if there was none for too long.
  void beat();
  void abort_if_asked();
  /// The rank whose signs of life come here.
  int before() const { return (rank_ + size() - 1) % size(); }
  Ticket push(std::unique_ptr<Operation> operation);
  [[noreturn]] void throw_failure() const;

  JoinOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL, life_ = MPI_COMM_NULL;

  std::mutex mutex_;
  std::condition_variable started_, done_;
  std::deque<std::unique_ptr<Operation>> queue_;
  Ticket pushed_ = 0, finished_ = 0;
  bool joined_ = false, ends_ = false;
  std::string failure_;  // "": none
  std::atomic<int> abort_status_ = -1;
  std::atomic<bool> waited_for_ = false;

  // Of the thread alone.
  std::unique_ptr<Messages> beats_;
  char sent_ = 0, heard_ = 0;
  bool sends_ = false, before_left_ = false;
  Clock::time_point last_sent_, last_heard_, last_look_;

  std::thread thread_;  // the last one: it uses all others
};

}  // namespace crema
