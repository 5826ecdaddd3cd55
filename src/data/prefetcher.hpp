// Prefetcher: threads that load batches in advance. The net reads the batches in order.
//
// Batch k always has the same samples, for any number of threads: the sampler determines the order,
// and random numbers are functions of the numbers of the samples. `depth` batches form a ring. One
// thread loads a batch as a whole, so there is no lock for each record. Buffers are reused.
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
#include <vector>

#include "data/sampler.hpp"
#include "data/transform.hpp"

namespace crema {

struct Batch {
  std::vector<Sample> samples;  // what to load; filled by the prefetcher
  int64_t taken = 0;            // how many the prefetcher took; loaders may leave some out
  Shape shape;                  // (C, H, W) of each, where a batch may have a shape of its own
  std::vector<Placement> placements;
  std::vector<uint8_t> bytes;  // (N, C, H, W) where records hold bytes
  std::vector<float> floats;   // the same where they hold floats
  std::vector<double> labels;  // (N, L): integers of 32 bits, or values of f32
  /// Of AnnotatedData, (B, 8): the sample, label, instance, xmin, ymin, xmax, ymax, difficult.
  std::vector<double> boxes;
  std::vector<uint8_t> label_maps;  // of DenseImageData, (N, H, W), mirrored as the sample
  /// Why records were skipped, one a sample; other records took their places in `samples`.
  std::vector<std::string> skipped;
  /// The first record of which decoding lost something, as ImageLoss has it; "": none.
  struct Losses {
    std::string depth, palette;
  };
  Losses losses;
};

/// Loads whole batches. Each thread has its own loader.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  /// Loads the samples of the batch. If `stop` is set it may return early; the batch is then not
  /// used.
  virtual void load(Batch& batch, const std::atomic<bool>& stop) = 0;
};

struct PrefetcherOptions {
  int64_t batch_size = 1;
  int threads = 1;
  int depth = 4;  // number of batches loaded in advance
  /// Records of an epoch behind which a batch ends, as DataSource::BatchEnd; 0: nowhere.
  int64_t end = 0;
};

class Prefetcher {
 public:
  /// Called once in each thread.
  using MakeLoader = std::function<std::unique_ptr<BatchLoader>()>;

  /// Error if the system cannot start the threads.
  Prefetcher(const PrefetcherOptions& options, Sampler sampler, MakeLoader make_loader);
  /// Stops the threads after their present record.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until release(). Waits until it is loaded. If loading threw, this and
  /// every further call throws the same.
  Batch& wait();
  /// Releases the batch. The next wait() returns the batch after it.
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
