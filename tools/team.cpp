#include "tools/team.hpp"

#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <system_error>

namespace crema::tools {
namespace {

// Measured with googlenet, resnet50 and LeNet on two cores. Beside other programs, a thread that
// spins uses up the time that it is owed; on idle machines, shorter spins cost up to a tenth.
constexpr int64_t kIdleSpin = 50'000;  // ns of a thread without a region
constexpr int64_t kEndSpin = 10'000;   // ns at the end of a region
// The same where threads came too late for several regions in succession, for some regions.
constexpr int64_t kBriefSpin = 5'000;
constexpr int kLateRegions = 4;
constexpr uint32_t kBriefRegions = 256;

thread_local ThreadTeam::Here now_here;

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Whether `done` came true within that time.
template <class Done>
bool spin(int64_t ns, const Done& done) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatch = 32;  // between looks at the clock
  if (done()) return true;
  if (ns == 0) return false;
  const auto end = Clock::now() + std::chrono::nanoseconds(ns);
  do {
    for (int i = 0; i < kBatch; ++i) {
      pause();
      if (done()) return true;
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(bool spins)
    : idle_spin_(spins ? kIdleSpin : 0),
      end_spin_(spins ? kEndSpin : 0),
      processors_(omp_get_num_procs()) {}

ThreadTeam::~ThreadTeam() {
  ends_ = true;
  ++regions_;
  wake_all(regions_);
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

const ThreadTeam::Here& ThreadTeam::here() { return now_here; }

void ThreadTeam::run_inside(Body body, void* data) {
  const Here before = now_here;
  now_here.share = 0;
  now_here.shares = 1;
  body(data);
  now_here = before;
}

void ThreadTeam::grow(int shares) {
  while (static_cast<int>(workers_.size()) + 1 < shares) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.share = static_cast<int>(workers_.size());
    worker.begun = regions_;
    try {
      worker.thread = std::thread([this, &worker] { work(worker); });
    } catch (const std::system_error&) {
      workers_.pop_back();
      return;
    }
  }
}

/// Whether the caller is the one to run the share of that thread in that region.
bool ThreadTeam::claim(Worker& worker, uint32_t region) {
  uint32_t before = region - 1;
  return worker.claimed.load(std::memory_order_relaxed) == before &&
         worker.claimed.compare_exchange_strong(before, region);
}

void ThreadTeam::call(int share) {
  const Here before = now_here;
  now_here = {this, share, shares_};
  body_(data_);
  now_here = before;
}

void ThreadTeam::work(Worker& worker) {
  uint32_t seen = worker.begun;
  int most_threads = 0;
  while (true) {
    const auto has_begun = [&] { return regions_.load(std::memory_order_acquire) != seen; };
    // More threads than processors have nothing to spin for.
    const bool spins = worker.share < processors_;
    const int64_t most = brief_ ? std::min(idle_spin_, kBriefSpin) : idle_spin_;
    if (!spin(spins ? most : 0, has_begun)) {
      ++sleepers_;
      while (regions_.load() == seen) sleep_while(regions_, seen);
      --sleepers_;
    }
    seen = regions_.load();
    if (ends_) return;
    if (!claim(worker, seen)) continue;
    if (most_threads != most_threads_) omp_set_num_threads(most_threads = most_threads_);
    call(worker.share);
    // The owner may end the team as soon as nothing is left, but for what its destructor joins.
    if (left_.fetch_sub(1) == 1 && owner_sleeps_) wake_all(left_);
  }
}

void ThreadTeam::run(Body body, void* data, int shares) {
  grow(shares);
  // Where the system gives no more threads, code that waits for others in a region would wait
  // forever.
  shares = std::min(shares, static_cast<int>(workers_.size()) + 1);
  const uint32_t region = regions_.load(std::memory_order_relaxed) + 1;
  body_ = body;
  data_ = data;
  shares_ = shares;
  most_threads_ = omp_get_max_threads();
  left_.store(static_cast<uint32_t>(shares - 1), std::memory_order_relaxed);
  for (const auto& worker : workers_)
    worker->claimed.store(worker->share < shares ? region - 1 : region, std::memory_order_relaxed);
  regions_ = region;
  if (sleepers_ > 0) wake_all(regions_);
  call(0);
  bool late = false;
  for (const auto& worker : workers_) {
    if (!claim(*worker, region)) continue;
    late = true;
    call(worker->share);
    --left_;
  }
  watch(late);
  const auto done = [&] { return left_.load(std::memory_order_acquire) == 0; };
  const int64_t most = brief_ ? std::min(end_spin_, kBriefSpin) : end_spin_;
  if (spin(shares <= processors_ ? most : 0, done)) return;
  owner_sleeps_ = true;
  for (uint32_t left = left_; left != 0; left = left_) sleep_while(left_, left);
  owner_sleeps_ = false;
}

/// Where other programs have the processors of threads, these come late again and again.
void ThreadTeam::watch(bool late) {
  late_regions_ = late ? late_regions_ + 1 : 0;
  if (late_regions_ >= kLateRegions) {
    brief_left_ = kBriefRegions;
    brief_ = true;
  } else if (brief_left_ > 0 && --brief_left_ == 0) {
    brief_ = false;
  }
}

void ThreadTeam::barrier() {
  const uint32_t barrier = barriers_;
  if (++arrived_ == now_here.shares) {
    arrived_ = 0;
    ++barriers_;
    if (sleepers_at_barrier_ > 0) wake_all(barriers_);
    return;
  }
  if (spin(idle_spin_, [&] { return barriers_.load(std::memory_order_acquire) != barrier; }))
    return;
  ++sleepers_at_barrier_;
  while (barriers_.load() == barrier) sleep_while(barriers_, barrier);
  --sleepers_at_barrier_;
}

}  // namespace crema::tools
