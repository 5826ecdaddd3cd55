// Prefetcher: threads that load batches ahead of the net, which takes them in order.
//
// Batch k is always the same samples, whichever thread loads it and whenever: the order comes from
// the sampler, and random numbers from the samples' own numbers. Each of `depth` batches in a ring
// is loaded by one thread as a whole; there is no lock a record. Buffers are used again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/sampler.hpp"
#include "data/transform.hpp"

namespace crema {

struct Batch {
  std::vector<Sample> samples;  // what to load; filled by the prefetcher
  std::vector<Placement> placements;
  std::vector<uint8_t> bytes;   // (N, C, H, W) where records hold bytes
  std::vector<float> floats;    // the same where they hold floats
  std::vector<int32_t> labels;  // (N)
};

/// Loads whole batches; each thread has one of its own.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  /// Fills the batch from its samples. May return early, with anything in it, when `stop` is set.
  virtual void load(Batch& batch, const std::atomic<bool>& stop) = 0;
};

struct PrefetcherOptions {
  int64_t batch_size = 1;
  int threads = 1;
  int depth = 4;  // batches loaded ahead
};

class Prefetcher {
 public:
  /// Called in each thread as it begins.
  using MakeLoader = std::function<std::unique_ptr<BatchLoader>()>;

  /// Error when the system does not give so many threads.
  Prefetcher(const PrefetcherOptions& options, Sampler sampler, MakeLoader make_loader);
  /// Stops the threads after the record that they are at.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until release(). Waits for it where it has to; throws here what was
  /// thrown while it was loaded, and again at every further call.
  Batch& wait();
  /// Gives the batch back: the next wait() is for the one after it.
  void release();

  /// Seconds that wait() has spent waiting since the last call.
  double take_wait_seconds();

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  void work();
  void stop();
  Slot& slot(uint64_t ticket) { return slots_[ticket % slots_.size()]; }

  PrefetcherOptions options_;
  MakeLoader make_loader_;
  std::mutex mutex_;  // guards all below but the contents of batches
  std::condition_variable batch_ready_, slot_free_;
  Sampler sampler_;
  std::vector<Slot> slots_;
  uint64_t next_ticket_ = 0;  // batch that the next free thread loads
  uint64_t next_out_ = 0;     // batch that the net takes next
  double wait_seconds_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace crema
