// Batches of a layer of Python that is a source of data: made when they are needed, or ahead of
// that, in a thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "crema/blob.hpp"
#include "crema/tensor.hpp"

namespace crema::python {

/// One thread takes the batches, without the GIL. They come in the order in which they were made.
class BatchesAhead {
 public:
  struct Batch {
    std::vector<std::unique_ptr<Blob>> tops;
    std::vector<Tensor> state;  // of the layer behind it
    std::exception_ptr error;

    std::vector<Blob*> blobs() const;
  };
  using Make = std::function<void(Batch&)>;

  /// Up to `ahead` batches are made ahead. `make` writes the tops, which first have the shapes of
  /// `like`, and the state, under the GIL that it takes itself.
  BatchesAhead(int ahead, Blobs like, Make make);
  ~BatchesAhead();
  BatchesAhead(const BatchesAhead&) = delete;
  BatchesAhead& operator=(const BatchesAhead&) = delete;

  /// The next batch, the same until release(). Throws what its making threw; the call behind that
  /// makes one anew.
  Batch& next();
  /// The batch that next() returned; null if there is none.
  Batch* present() const { return present_; }
  /// The batch has been used.
  void release() { present_ = nullptr; }
  bool runs_ahead() const { return thread_.joinable(); }
  /// Ends the thread and drops what it has made. The next next() starts it again.
  void stop();

  /// Whether this is a thread that makes batches. What it runs may collect the garbage of Python,
  /// and with it the net that its batches are for, which would wait here for this thread.
  static bool makes_them_here();
  /// Destroys a net, in a thread of its own, with the GIL.
  static void destroy_elsewhere(std::shared_ptr<void> net);

  /// Ends all threads, before the interpreter ends. Without the GIL.
  static void stop_all();

 private:
  void work();
  Batch& slot(size_t number) { return slots_[number % slots_.size()]; }

  const int ahead_;
  const Make make_;
  Batch* present_ = nullptr;
  std::vector<Batch> slots_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  size_t made_ = 0, taken_ = 0;
  bool failed_ = false;  // the last one that was made; the thread waits until it is taken
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace crema::python
