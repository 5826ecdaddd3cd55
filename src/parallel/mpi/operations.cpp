#include "parallel/mpi/operations.hpp"

#include <algorithm>
#include <utility>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr int kTag = 1;
/// Of one message, behind which the next one of a larger piece of memory follows.
constexpr size_t kMostBytes = size_t{4} << 20;

/// body(offset, bytes, number) for each piece of so many bytes.
template <class Body>
void for_pieces(size_t bytes, const Body& body) {
  size_t piece = kMostBytes;
  while (bytes / piece >= 16384) piece *= 2;  // every MPI has tags up to 32767
  int number = 0;
  for (size_t at = 0; at < bytes; at += piece) body(at, std::min(piece, bytes - at), number++);
}

class Broadcast : public Operation {
 public:
  Broadcast(MPI_Comm comm, int rank, int size, void* data, size_t bytes, int root)
      : Operation(comm, rank, size), data_(static_cast<char*>(data)), bytes_(bytes), root_(root) {}

  void start() override {
    // The root of the tree is 0. The parent of a node is the node without its lowest bit.
    const int node = (rank_ - root_ + size_) % size_;
    int bit = 1;
    while (bit < size_ && (node & bit) == 0) {
      if (node + bit < size_) children_.push_back((node + bit + root_) % size_);
      bit <<= 1;
    }
    // Those with the largest trees first.
    std::reverse(children_.begin(), children_.end());
    const int parent = node == 0 ? -1 : (node - bit + root_ + size_) % size_;
    for_pieces(bytes_, [&](size_t at, size_t bytes, int number) {
      if (parent < 0) return pass_on(at, bytes, number);
      messages_.receive(parent, data_ + at, bytes, kTag + number,
                        [this, at, bytes, number] { pass_on(at, bytes, number); });
    });
  }

 private:
  void pass_on(size_t at, size_t bytes, int number) {
    for (const int child : children_) messages_.send(child, data_ + at, bytes, kTag + number);
  }

  char* data_;
  size_t bytes_;
  int root_;
  std::vector<int> children_;
};

class Exchange : public Operation {
 public:
  Exchange(MPI_Comm comm, int rank, int size, int partner, const void* send, void* receive,
           size_t bytes)
      : Operation(comm, rank, size),
        partner_(partner),
        send_(static_cast<const char*>(send)),
        receive_(static_cast<char*>(receive)),
        bytes_(bytes) {}

  void start() override {
    for_pieces(bytes_, [&](size_t at, size_t bytes, int number) {
      messages_.receive(partner_, receive_ + at, bytes, kTag + number);
    });
    for_pieces(bytes_, [&](size_t at, size_t bytes, int number) {
      messages_.send(partner_, send_ + at, bytes, kTag + number);
    });
  }

 private:
  int partner_;
  const char* send_;
  char* receive_;
  size_t bytes_;
};

class AllGather : public Operation {
 public:
  AllGather(MPI_Comm comm, int rank, int size, std::string own, std::vector<std::string>& result)
      : Operation(comm, rank, size), own_(std::move(own)), result_(result) {}

  void start() override {
    if (own_.size() >= size_t{1} << 30)
      throw Error("a text of ", own_.size(), " bytes is too long to be sent to all processes");
    result_.assign(static_cast<size_t>(size_), std::string());
    for (int step = 1; step < size_; ++step) {
      missing_.insert((rank_ + step) % size_);
      messages_.send((rank_ + step) % size_, own_.data(), own_.size(), kTag);
    }
    result_[static_cast<size_t>(rank_)] = own_;
  }

  bool advance() override {
    bool found_any = false;
    for (auto rank = missing_.begin(); rank != missing_.end();) {
      int found = 0, bytes = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      check_mpi(MPI_Improbe(*rank, kTag, messages_.comm(), &found, &message, &status),
                "a message cannot be looked for");
      if (found == 0) {
        ++rank;
        continue;
      }
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "a message has no length");
      std::string& text = result_[static_cast<size_t>(*rank)];
      text.resize(static_cast<size_t>(bytes));
      messages_.receive_found(*rank, &message, text.data(), text.size());
      rank = missing_.erase(rank);
      found_any = true;
    }
    return messages_.test() || found_any;
  }

  bool is_done() const override { return missing_.empty() && messages_.empty(); }

  std::set<int> awaited() const override {
    std::set<int> ranks = messages_.awaited();
    ranks.insert(missing_.begin(), missing_.end());
    return ranks;
  }

 private:
  std::string own_;
  std::vector<std::string>& result_;
  std::set<int> missing_;
};

}  // namespace

std::unique_ptr<Operation> make_broadcast(MPI_Comm comm, int rank, int size, void* data,
                                          size_t bytes, int root) {
  return std::make_unique<Broadcast>(comm, rank, size, data, bytes, root);
}

std::unique_ptr<Operation> make_exchange(MPI_Comm comm, int rank, int size, int partner,
                                         const void* send, void* receive, size_t bytes) {
  return std::make_unique<Exchange>(comm, rank, size, partner, send, receive, bytes);
}

std::unique_ptr<Operation> make_all_gather(MPI_Comm comm, int rank, int size, std::string own,
                                           std::vector<std::string>& result) {
  return std::make_unique<AllGather>(comm, rank, size, std::move(own), result);
}

}  // namespace crema
