#include "data/batches/prefetcher.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/spans.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Waits until ready(), which the mutex of `guard` guards. The other OpenMP threads of the caller's
/// team sleep meanwhile: they would spin for milliseconds, on processors that the loading threads
/// need. They do not touch the mutex, which the loading threads need too.
template <class Ready>
void wait_as_team(std::unique_lock<std::mutex>& guard, std::condition_variable& changed,
                  const Ready& ready) {
  const int team = omp_in_parallel() ? 1 : omp_get_max_threads();
  std::atomic<bool> done = false;
#pragma omp parallel num_threads(team)
  if (omp_get_thread_num() == 0) {  // the caller
    changed.wait(guard, ready);
    done = true;
    done.notify_all();
  } else {
    done.wait(false);
  }
}

}  // namespace

PrefetchThreads::PrefetchThreads(const PrefetcherOptions& options, Sampler sampler,
                                 MakeBatch make_batch, std::function<Load()> make_load)
    : options_(options), make_load_(std::move(make_load)), sampler_(std::move(sampler)) {
  if (options.batch_size <= 0)
    throw Error("batch_size is ", options.batch_size, "; it must be positive");
  if (options.threads <= 0) throw Error("threads is ", options.threads, "; it must be positive");
  if (options.depth <= 0) throw Error("prefetch is ", options.depth, "; it must be positive");
  slots_.resize(static_cast<size_t>(options.depth));
  for (Slot& slot : slots_) slot.batch = make_batch();
  try {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();
    throw Error("cannot start more than ", started, " of ", options.threads,
                " threads that read data (", error.code().message(),
                "); lower threads, or raise the limits on processes and memory");
  } catch (...) {
    stop();
    throw;
  }
}

PrefetchThreads::~PrefetchThreads() { stop(); }

void PrefetchThreads::stop() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  slot_free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PrefetchThreads::count_ready() const {
  if (SpanRecording::is_on())
    record_counter(options_.name + ": batches ready",
                   static_cast<double>(std::ranges::count(slots_, true, &Slot::ready)));
}

void PrefetchThreads::work(int thread) {
  name_thread(text(options_.name, ": data thread ", thread + 1));
  Load load;
  std::exception_ptr broken;
  try {
    load = make_load_();
  } catch (...) {
    broken = std::current_exception();
  }

  std::unique_lock guard(mutex_);
  for (;;) {
    const auto may_go_on = [this] { return stop_ || next_ticket_ < next_out_ + slots_.size(); };
    if (!may_go_on()) {
      const Span span(SpanKind::wait, [] { return "all batches are loaded"; });
      slot_free_.wait(guard, may_go_on);
    }
    if (stop_) return;
    const uint64_t ticket = next_ticket_++;
    Slot& mine = slot(ticket);
    std::exception_ptr error = broken;
    try {
      int64_t size = options_.batch_size;
      if (options_.end > 0) size = std::clamp<int64_t>(sampler_.left(options_.end), 1, size);
      mine.batch->taken = size;
      mine.batch->samples.resize(static_cast<size_t>(size));
      for (Sample& sample : mine.batch->samples) sample = sampler_.next();
    } catch (...) {
      error = std::current_exception();
    }

    guard.unlock();
    if (!error) {
      try {
        const Span span(SpanKind::batch, [&] { return text("batch ", ticket); });
        load(*mine.batch, stop_);
      } catch (...) {
        error = std::current_exception();
      }
    }
    guard.lock();

    mine.error = error;
    mine.ready = true;
    count_ready();
    if (ticket == next_out_) batch_ready_.notify_one();
  }
}

Batch& PrefetchThreads::wait() {
  std::unique_lock guard(mutex_);
  Slot& next = slot(next_out_);
  if (!next.ready) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const Span span(SpanKind::wait, [&] { return SpanText{"wait for data", options_.name}; });
    wait_as_team(guard, batch_ready_, [&] { return next.ready; });
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (next.error) std::rethrow_exception(next.error);
  return *next.batch;
}

void PrefetchThreads::release() {
  {
    const std::lock_guard guard(mutex_);
    slot(next_out_).ready = false;
    ++next_out_;
    count_ready();
  }
  slot_free_.notify_one();
}

double PrefetchThreads::take_wait_seconds() {
  const std::lock_guard guard(mutex_);
  return std::exchange(wait_seconds_, 0.0);
}

}  // namespace crema
