// Threads that share the work of a region, for a machine that other programs use too.
//
// libgomp's threads wait for each other: where another program has taken the processor of one of
// them, all others wait until it runs again, and those that spin meanwhile take processors from the
// rest. Here, a thread that was not there when a region began has its share run by the thread that
// began it, and waiting threads sleep after a few microseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace crema::tools {

/// One thread, which owns the team, begins all regions. Others may have teams of their own.
class ThreadTeam {
 public:
  using Body = void (*)(void*);

  /// `spins`: whether threads that wait spin before they sleep.
  explicit ThreadTeam(bool spins = true);
  /// Ends the threads.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Calls body(data) `shares` times, at most once at a time for each share, and returns when all
  /// calls have returned. The calling thread makes that of share 0, and those of threads that come
  /// too late. Bodies must not throw.
  void run(Body body, void* data, int shares);

  /// What the calling thread runs: a share of a region, or nothing (a null team, 0 of 1).
  struct Here {
    ThreadTeam* team = nullptr;
    int share = 0, shares = 1;
  };
  static const Here& here();
  /// Calls body(data) in a region in the region that the thread runs: it has one share.
  static void run_inside(Body body, void* data);
  /// In a body: waits until all shares of the region are here.
  void barrier();

 private:
  struct alignas(128) Worker {
    int share = 0;
    uint32_t begun = 0;  // the number of regions when the thread was made
    /// Number of the last region whose share has somebody to run it.
    std::atomic<uint32_t> claimed{0};
    std::thread thread;
  };

  void grow(int shares);
  void work(Worker& worker);
  bool claim(Worker& worker, uint32_t region);
  void call(int share);
  void watch(bool late);

  const int64_t idle_spin_, end_spin_;  // nanoseconds
  const int processors_;
  Body body_ = nullptr;
  void* data_ = nullptr;
  int shares_ = 1;
  int most_threads_ = 1;  // that regions in bodies would have
  int late_regions_ = 0;  // the last ones, in succession, that threads came too late for
  uint32_t brief_left_ = 0;
  std::atomic<bool> brief_{false};  // spin briefly, for that many regions
  std::atomic<bool> ends_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
  // On lines of their own: different threads write them.
  alignas(128) std::atomic<uint32_t> regions_{0};  // that were begun
  alignas(128) std::atomic<uint32_t> sleepers_{0};
  alignas(128) std::atomic<uint32_t> left_{0};  // shares that are not done
  std::atomic<bool> owner_sleeps_{false};
  alignas(128) std::atomic<int> arrived_{0};  // at a barrier
  std::atomic<uint32_t> barriers_{0}, sleepers_at_barrier_{0};
};

}  // namespace crema::tools
