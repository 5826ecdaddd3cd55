// What a communicator does, one after the other: state machines on messages.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"
#include "parallel/mpi/messages.hpp"

namespace crema {

class Operation {
 public:
  Operation(MPI_Comm comm, int rank, int size) : messages_(comm), rank_(rank), size_(size) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Sends and receives what can be at once.
  virtual void start() = 0;
  /// Goes on with what has come. Returns whether anything has.
  virtual bool advance() { return messages_.test(); }
  virtual bool is_done() const { return messages_.empty(); }
  /// The ranks that it waits for.
  virtual std::set<int> awaited() const { return messages_.awaited(); }

 protected:
  Messages messages_;
  int rank_, size_;
};

/// Each rank sums up a part of the elements, in pieces. It receives the parts of the others' values
/// from all of them, and sends the sums to all of them: each element goes over the network twice,
/// whatever the number of ranks.
std::unique_ptr<Operation> make_all_reduce(MPI_Comm comm, int rank, int size,
                                           const Communicator::Reduction& reduction);
/// Along a tree: log2(ranks) messages one after the other.
std::unique_ptr<Operation> make_broadcast(MPI_Comm comm, int rank, int size, void* data,
                                          size_t bytes, int root);
std::unique_ptr<Operation> make_exchange(MPI_Comm comm, int rank, int size, int partner,
                                         const void* send, void* receive, size_t bytes);
/// Everyone sends to everyone: for short texts.
std::unique_ptr<Operation> make_all_gather(MPI_Comm comm, int rank, int size, std::string own,
                                           std::vector<std::string>& result);

}  // namespace crema
