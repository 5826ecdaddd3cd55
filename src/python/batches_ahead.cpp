#include "python/batches_ahead.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "crema/error.hpp"
#include "python/waiting.hpp"

namespace crema::python {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};

/// Those that exist, and the threads that destroy nets, for stop_all(). It outlives what is static,
/// as layers may.
struct All {
  std::mutex mutex;
  std::vector<BatchesAhead*> sources;
  std::mutex ending_mutex;  // guards all below
  std::condition_variable ended;
  int ending = 0;
};

All& all() {
  static auto* const made = new All();
  return *made;
}

thread_local bool makes_batches = false;

}  // namespace

std::vector<Blob*> BatchesAhead::Batch::blobs() const {
  std::vector<Blob*> blobs;
  for (const auto& top : tops) blobs.push_back(top.get());
  return blobs;
}

BatchesAhead::BatchesAhead(int ahead, Blobs like, Make make)
    : ahead_(ahead), make_(std::move(make)), slots_(static_cast<size_t>(ahead) + 1) {
  for (Batch& batch : slots_) {
    for (const Blob* const top : like)
      batch.tops.push_back(std::make_unique<Blob>(top->shape(), top->data.dtype()));
  }
  const std::lock_guard lock(all().mutex);
  all().sources.push_back(this);
}

BatchesAhead::~BatchesAhead() {
  {
    const std::lock_guard lock(all().mutex);
    std::erase(all().sources, this);
  }
  stop();
}

void BatchesAhead::stop_all() {
  {
    const std::lock_guard lock(all().mutex);
    for (BatchesAhead* const source : all().sources) source->stop();
  }
  std::unique_lock lock(all().ending_mutex);
  all().ended.wait(lock, [] { return all().ending == 0; });
}

bool BatchesAhead::makes_them_here() { return makes_batches; }

void BatchesAhead::destroy_elsewhere(std::shared_ptr<void> net) {
  const auto count = [](int more) {
    const std::lock_guard lock(all().ending_mutex);
    all().ending += more;
    all().ended.notify_all();
  };
  count(1);
  auto* const left = new std::shared_ptr<void>(std::move(net));
  try {
    std::thread([left, count] {
      {
        const nanobind::gil_scoped_acquire gil;
        delete left;
      }
      count(-1);
    }).detach();
  } catch (const std::system_error&) {  // the net is left where it is
    count(-1);
  }
}

void BatchesAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  stops_ = failed_ = false;
  made_ = taken_ = 0;
  present_ = nullptr;
}

void BatchesAhead::work() {
  makes_batches = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    // One more slot has the batch that is in use.
    const auto ahead = static_cast<size_t>(ahead_);
    changed_.wait(lock, [&] { return stops_ || (!failed_ && made_ < taken_ + ahead); });
    if (stops_) return;
    Batch& batch = slot(made_);
    lock.unlock();
    batch.error = nullptr;
    try {
      make_(batch);
    } catch (...) {
      batch.error = std::current_exception();
    }
    lock.lock();
    failed_ = batch.error != nullptr;
    ++made_;
    changed_.notify_all();
  }
}

BatchesAhead::Batch& BatchesAhead::next() {
  if (present_ != nullptr) return *present_;
  if (ahead_ == 0) {
    make_(slots_[0]);
    present_ = slots_.data();
    return *present_;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw Error("cannot start a thread that makes batches ahead (", error.code().message(),
                  "); set `prefetch = 0` in the class of the layer, or raise the limit on "
                  "processes");
    }
  }
  std::unique_lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  while (!changed_.wait_for(lock, kBetweenLooks, [&] { return made_ > taken_; })) {
    lock.unlock();
    look_for_signals(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    lock.lock();
  }
  Batch& batch = slot(taken_++);
  const std::exception_ptr error = std::exchange(batch.error, nullptr);
  if (error != nullptr) failed_ = false;
  changed_.notify_all();
  if (error != nullptr) std::rethrow_exception(error);
  present_ = &batch;
  return batch;
}

}  // namespace crema::python
