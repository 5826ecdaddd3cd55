#include "python/fork.hpp"

#include <pthread.h>

#include <atomic>

#include "crema/error.hpp"

namespace crema::python {
namespace {

std::atomic<bool> used = false;
std::atomic<bool> forked = false;

void in_child() {
  if (used) forked = true;
}

}  // namespace

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void need_threads() {
  if (!is_forked()) {
    used.store(true, std::memory_order_relaxed);
    return;
  }
  throw Error(
      "this process was forked from one that had built or run nets; the threads (and the GPU) that "
      "nets use do not exist in the copy, where a pass would wait for ever; start processes by "
      "multiprocessing.get_context('spawn'), or fork before the first net is built");
}

void watch_forks() { pthread_atfork(nullptr, nullptr, in_child); }

}  // namespace crema::python
