// Prefetcher: threads that load batches in advance. The net reads the batches in order.
//
// Batch k always has the same samples, for any number of threads: the sampler determines the order,
// and random numbers are functions of the numbers of the samples. `depth` batches form a ring. One
// thread loads a batch as a whole, so there is no lock for each record. Buffers are reused.
//
// What a batch holds is known to its loader and to the layer that gives it, and to nothing here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/batches/sampler.hpp"

namespace crema {

/// What every batch has. Layers derive batches of their own from it.
struct Batch {
  virtual ~Batch() = default;

  std::vector<Sample> samples;  // what to load; filled by the prefetcher
  int64_t taken = 0;            // how many the prefetcher took; loaders may leave some out
  /// Why records were skipped, one a sample; other records took their places in `samples`.
  std::vector<std::string> skipped;
};

/// Loads whole batches of type B. Each thread has its own loader.
template <class B>
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  /// Loads the samples of the batch. If `stop` is set it may return early; the batch is then not
  /// used.
  virtual void load(B& batch, const std::atomic<bool>& stop) = 0;
};

struct PrefetcherOptions {
  int64_t batch_size = 1;
  int threads = 1;
  int depth = 4;  // number of batches loaded in advance
  /// Records of an epoch behind which a batch ends, as DataSource::BatchEnd; 0: nowhere.
  int64_t end = 0;
  std::string name = {};  // whose batches these are, for traces
};

/// The part of a Prefetcher that is the same for all batches: threads, order and waiting.
class PrefetchThreads {
 public:
  /// Stops the threads after their present record.
  virtual ~PrefetchThreads();
  PrefetchThreads(const PrefetchThreads&) = delete;
  PrefetchThreads& operator=(const PrefetchThreads&) = delete;

  /// The next batch, valid until release(). Waits until it is loaded. If loading threw, this and
  /// every further call throws the same.
  Batch& wait();
  /// Releases the batch. The next wait() returns the batch after it.
  void release();

  /// Seconds that wait() has spent waiting since the last call.
  double take_wait_seconds();

 protected:
  using MakeBatch = std::unique_ptr<Batch> (*)();
  /// A thread's way to load a batch, as BatchLoader::load().
  using Load = std::function<void(Batch& batch, const std::atomic<bool>& stop)>;

  /// make_load is called once in each thread.
  PrefetchThreads(const PrefetcherOptions& options, Sampler sampler, MakeBatch make_batch,
                  std::function<Load()> make_load);

 private:
  struct Slot {
    std::unique_ptr<Batch> batch;
    std::exception_ptr error;
    bool ready = false;
  };

  void work(int thread);
  void stop();
  /// Notes, for traces, how many batches wait to be taken. The mutex is held.
  void count_ready() const;
  Slot& slot(uint64_t ticket) { return slots_[ticket % slots_.size()]; }

  PrefetcherOptions options_;
  std::function<Load()> make_load_;
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

/// Of batches of type B, which derives from Batch.
template <class B>
class Prefetcher final : public PrefetchThreads {
 public:
  /// Called once in each thread.
  using MakeLoader = std::function<std::unique_ptr<BatchLoader<B>>()>;

  /// Error if the system cannot start the threads.
  Prefetcher(const PrefetcherOptions& options, Sampler sampler, MakeLoader make_loader)
      : PrefetchThreads(
            options, std::move(sampler),
            []() -> std::unique_ptr<Batch> { return std::make_unique<B>(); },
            [make_loader = std::move(make_loader)]() -> Load {
              return [loader = std::shared_ptr<BatchLoader<B>>(make_loader())](
                         Batch& batch, const std::atomic<bool>& stop) {
                loader->load(static_cast<B&>(batch), stop);
              };
            }) {}

  B& wait() { return static_cast<B&>(PrefetchThreads::wait()); }
};

}  // namespace crema
