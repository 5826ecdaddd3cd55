// Loops over independent indices on the context's CPU threads.
//
// Every region of a thread has the same team: as many threads as the context says (ThreadScope).
// libgomp ends threads, with all that is thread_local in them, when a team is smaller than the one
// before it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace crema {

/// While it lives, OpenMP regions of the calling thread have `threads` threads; then as many as
/// before. Whatever computes for a context opens one with Context::threads().
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~ThreadScope() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

/// `grain` of parallel_for() for elements of a few operations each.
inline constexpr int64_t kElementGrain = 16384;

/// Runs body(begin, end) on consecutive pieces of [0, count), at least `grain` indices a piece. The
/// pieces depend only on count, grain and the size of the team, so that sums over them are
/// reproducible. A single piece runs on the calling thread. An exception of any piece is thrown
/// again in the caller.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  const int team = omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t least = std::max<int64_t>(grain, 1);
  const int64_t pieces = std::min<int64_t>(team, (count + least - 1) / least);
  if (pieces <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(team)
  {
    // Where the system has fewer threads to give than were asked for, they take several pieces.
    for (int64_t p = omp_get_thread_num(); p < pieces; p += omp_get_num_threads()) {
      try {
        body(count * p / pieces, count * (p + 1) / pieces);
      } catch (...) {
#pragma omp critical(crema_parallel_for)
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Number of the calling thread in its team, for scratch memory per thread.
inline int thread_number() { return omp_get_thread_num(); }

}  // namespace crema
