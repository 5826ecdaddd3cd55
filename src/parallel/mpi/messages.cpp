#include "parallel/mpi/messages.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "crema/error.hpp"

namespace crema {

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw Error(what, ": MPI says '", std::string(words, static_cast<size_t>(length)), "'");
}

void Messages::add(MPI_Request request, int rank, bool receives, Then then) {
  requests_.push_back(request);
  details_.push_back({rank, receives, std::move(then)});
}

void Messages::send(int to, const void* data, size_t bytes, int tag, Then then) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, comm_, &request),
            "a message cannot be sent");
  add(request, to, false, std::move(then));
}

void Messages::receive(int from, void* data, size_t bytes, int tag, Then then) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm_, &request),
            "a message cannot be received");
  add(request, from, true, std::move(then));
}

void Messages::receive_found(int from, MPI_Message* found, void* data, size_t bytes, Then then) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Imrecv(data, static_cast<int>(bytes), MPI_BYTE, found, &request),
            "a message cannot be received");
  add(request, from, true, std::move(then));
}

bool Messages::test() {
  if (requests_.empty()) return false;
  done_.resize(requests_.size());
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                         MPI_STATUSES_IGNORE),
            "messages cannot be completed");
  if (count == MPI_UNDEFINED || count == 0) return false;
  // From behind, so that the last one moves into the place of one that is done.
  std::sort(done_.begin(), done_.begin() + count);
  std::vector<Then> then;
  for (int i = count; i-- > 0;) {
    const auto place = static_cast<size_t>(done_[static_cast<size_t>(i)]);
    if (details_[place].then) then.push_back(std::move(details_[place].then));
    requests_[place] = requests_.back();
    details_[place] = std::move(details_.back());
    requests_.pop_back();
    details_.pop_back();
  }
  for (auto next = then.rbegin(); next != then.rend(); ++next) (*next)();
  return true;
}

std::set<int> Messages::awaited() const {
  std::set<int> ranks;
  for (const Detail& detail : details_) {
    if (detail.receives) ranks.insert(detail.rank);
  }
  return ranks;
}

}  // namespace crema
