// Loops over independent indices on the context's CPU threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace crema {

/// Runs body(begin, end) on consecutive pieces of [0, count), at least `grain` indices a piece. The
/// pieces depend only on count, grain and the number of threads, so that sums over them are
/// reproducible. An exception of any piece is thrown again in the caller.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  const int64_t pieces =
      std::min<int64_t>(omp_in_parallel() ? 1 : omp_get_max_threads(),
                        (count + std::max<int64_t>(grain, 1) - 1) / std::max<int64_t>(grain, 1));
  if (pieces <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static, 1)
  for (int64_t p = 0; p < pieces; ++p) {
    try {
      body(count * p / pieces, count * (p + 1) / pieces);
    } catch (...) {
#pragma omp critical(crema_parallel_for)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Number of the piece that runs, for scratch memory per thread.
inline int thread_number() { return omp_get_thread_num(); }

}  // namespace crema
