// Messages: what one process has under way to and from the others. Functions of MPI are called in
// one thread alone (mpi_communicator.hpp).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <set>
#include <vector>

namespace crema {

/// Error, with MPI's words, unless `code` is that of success.
void check_mpi(int code, const char* what);

class Messages {
 public:
  using Then = std::function<void()>;

  explicit Messages(MPI_Comm comm) : comm_(comm) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  MPI_Comm comm() const { return comm_; }
  /// `then` is called by test(), when the memory may be used again, or has what came. It may send
  /// and receive more. At most 1 GiB.
  void send(int to, const void* data, size_t bytes, int tag, Then then = {});
  void receive(int from, void* data, size_t bytes, int tag, Then then = {});
  /// One whose head has come, which says how long it is.
  void receive_found(int from, MPI_Message* found, void* data, size_t bytes, Then then = {});
  /// Returns whether any is done.
  bool test();
  bool empty() const { return requests_.empty(); }
  /// The ranks that have not sent what is received.
  std::set<int> awaited() const;

 private:
  struct Detail {
    int rank;
    bool receives;
    Then then;
  };
  void add(MPI_Request request, int rank, bool receives, Then then);

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<Detail> details_;  // of requests_
  std::vector<int> done_;        // kept for its memory
};

}  // namespace crema
