#include "parallel/mpi/mpi_communicator.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/parse_number.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

double seconds(std::chrono::steady_clock::duration time) { return duration<double>(time).count(); }

/// What the process tells the others of itself, a line each: host, number and cores.
std::string own_card() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string cores = "unknown";
  std::ifstream status("/proc/self/status");
  const std::string field = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) cores = line.substr(field.size());
  }
  return text(host, "\n", ::getpid(), "\n", cores);
}

Communicator::Process read_card(const std::string& card) {
  const size_t first = card.find('\n'), second = card.find('\n', first + 1);
  const std::string pid = card.substr(first + 1, second - first - 1);
  return {card.substr(0, first), parse_number<int64_t>(pid).value_or(0), card.substr(second + 1)};
}

}  // namespace

MpiCommunicator::MpiCommunicator(const JoinOptions& options) : options_(options) {
  int was_joined = 0;
  MPI_Initialized(&was_joined);
  if (was_joined != 0)
    throw Error(
        "MPI was started in this process before, which is possible once; keep the first "
        "communicator as long as the process needs one");
  // Signals are for the thread of the caller.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return joined_ || !failure_.empty(); });
  if (failure_.empty()) return;
  lock.unlock();
  thread_.join();
  throw_failure();
}

MpiCommunicator::~MpiCommunicator() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  started_.notify_one();
  thread_.join();
}

void MpiCommunicator::run() {
  // Sleeps of some microseconds are not to become 50 more.
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  try {
    join();
    {
      const std::scoped_lock lock(mutex_);
      joined_ = true;
    }
    done_.notify_all();
    work();
    leave();
  } catch (const std::exception& error) {
    // Without MPI_Finalize, which would wait for the one that is lost.
    std::unique_lock lock(mutex_);
    failure_ = error.what();
    done_.notify_all();
    while (joined_ && !ends_) {
      started_.wait_for(lock, milliseconds(50));
      abort_if_asked();
    }
  }
}

void MpiCommunicator::join() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
            "MPI cannot be started");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI cannot be started");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &life_), "MPI cannot be started");
  int size = 0;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size);
  processes_.resize(static_cast<size_t>(size));
  beats_ = std::make_unique<Messages>(life_);
  last_sent_ = last_heard_ = last_look_ = Clock::now();
  std::vector<std::string> cards;
  const auto gather = make_all_gather(comm_, rank_, size, own_card(), cards);
  run_operation(*gather);
  for (int rank = 0; rank < size; ++rank)
    processes_[static_cast<size_t>(rank)] = read_card(cards[static_cast<size_t>(rank)]);
}

void MpiCommunicator::work() {
  while (true) {
    std::unique_ptr<Operation> next;
    {
      std::unique_lock lock(mutex_);
      started_.wait_for(lock, milliseconds(100),
                        [&] { return ends_ || !queue_.empty() || abort_status_.load() >= 0; });
      if (!queue_.empty()) {
        next = std::move(queue_.front());
        queue_.pop_front();
      } else if (ends_) {
        return;
      }
    }
    if (next == nullptr) {
      beat();
      continue;
    }
    run_operation(*next);
    {
      const std::scoped_lock lock(mutex_);
      ++finished_;
    }
    done_.notify_all();
  }
}

void MpiCommunicator::leave() {
  while (sends_) beat();
  const char farewell = 1;
  bool said = false;
  const int size = static_cast<int>(processes_.size());
  if (size > 1) beats_->send((rank_ + 1) % size, &farewell, 1, 1, [&] { said = true; });
  sends_ = true;  // nothing more
  while (size > 1 && !(said && before_left_)) {
    beat();
    ::usleep(100);
  }
  MPI_Finalize();
}

void MpiCommunicator::run_operation(Operation& operation) {
  operation.start();
  Clock::time_point last = Clock::now();  // when something came
  while (!operation.is_done()) {
    if (operation.advance()) {
      last = Clock::now();
      continue;
    }
    beat();
    const double waited = seconds(Clock::now() - last);
    // Where the caller waits, its core is free. Else it computes, and may need this one.
    if (waited < (waited_for_.load() ? 500e-6 : 20e-6)) {
      ::sched_yield();
    } else {
      ::usleep(waited < 5e-3 ? 20 : 200);
    }
    // What it sent before it ended may still be on its way.
    if (before_left_ && waited > 2 && operation.awaited().count(before()) != 0)
      throw Error(name_of(before()), " has ended, and the others need it to go on");
    if (waited < options_.patience) continue;
    std::vector<std::string> names;
    for (const int rank : operation.awaited()) names.push_back(name_of(rank));
    throw Error(joined(names), names.size() == 1 ? " is" : " are",
                " alive, but has taken no part in what the processes do together for ",
                options_.patience, " s");
  }
}

void MpiCommunicator::beat() {
  abort_if_asked();
  const int size = static_cast<int>(processes_.size());
  if (size == 1) return;
  const Clock::time_point now = Clock::now();
  // A process that was stopped itself has heard nothing of others.
  if (seconds(now - last_look_) > 0.3 * options_.lost_after) last_heard_ = now;
  last_look_ = now;
  if (!before_left_ && beats_->awaited().empty()) {
    beats_->receive(before(), &heard_, 1, 1, [this] {
      last_heard_ = last_look_;
      before_left_ = heard_ != 0;
    });
  }
  if (!sends_ && seconds(now - last_sent_) > 0.1 * options_.lost_after) {
    sends_ = true;
    last_sent_ = now;
    beats_->send((rank_ + 1) % size, &sent_, 1, 1, [this] { sends_ = false; });
  }
  beats_->test();
  if (before_left_ || seconds(now - last_heard_) < options_.lost_after) return;
  throw Error(name_of(before()), " has not been heard from for ", options_.lost_after,
              " s: it hangs, it was stopped, or the network to it is cut");
}

void MpiCommunicator::abort_if_asked() {
  if (abort_status_.load() >= 0) MPI_Abort(MPI_COMM_WORLD, abort_status_.load());
}

Communicator::Ticket MpiCommunicator::push(std::unique_ptr<Operation> operation) {
  Ticket ticket = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw_failure();
    queue_.push_back(std::move(operation));
    ticket = ++pushed_;
  }
  started_.notify_one();
  return ticket;
}

Communicator::Ticket MpiCommunicator::start_all_reduce(const Reduction& reduction) {
  return push(make_all_reduce(comm_, rank_, size(), reduction));
}

Communicator::Ticket MpiCommunicator::start_broadcast(void* data, size_t bytes, int root) {
  return push(make_broadcast(comm_, rank_, size(), data, bytes, root));
}

Communicator::Ticket MpiCommunicator::start_exchange(int partner, const void* send, void* receive,
                                                     size_t bytes) {
  return push(make_exchange(comm_, rank_, size(), partner, send, receive, bytes));
}

Communicator::Ticket MpiCommunicator::start_all_gather(std::string own,
                                                       std::vector<std::string>& result) {
  return push(make_all_gather(comm_, rank_, size(), std::move(own), result));
}

void MpiCommunicator::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  waited_for_ = true;
  done_.wait(lock, [&] { return finished_ >= ticket || !failure_.empty(); });
  waited_for_ = false;
  if (finished_ < ticket) throw_failure();
}

void MpiCommunicator::throw_failure() const { throw Error(failure_); }

void MpiCommunicator::abort(int status) {
  abort_status_ = std::max(status, 1);
  started_.notify_one();
  // The thread calls MPI_Abort, which may wait for a network that is cut.
  for (int i = 0; i < 50; ++i) std::this_thread::sleep_for(milliseconds(100));
  std::_Exit(std::max(status, 1));
}

}  // namespace crema
