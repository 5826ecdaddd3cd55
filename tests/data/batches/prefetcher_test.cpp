#include "data/batches/prefetcher.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "support/expect_error.hpp"

namespace {

constexpr int kNoLimit = 1 << 30;
int threads_left = kNoLimit;  // that the system gives; a test's own thread starts all others

}  // namespace

// In the place of the C library's own, for this whole program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left != kNoLimit && threads_left-- <= 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}

namespace crema {
namespace {

using namespace std::chrono_literals;

struct Labels : Batch {
  std::vector<int32_t> labels;
};

/// Labels a sample with its record's number, taking the longer the smaller that is; counts threads
/// at work.
class SlowLoader : public BatchLoader<Labels> {
 public:
  struct Log {
    std::atomic<int> loaders = 0;
    std::atomic<int> batches = 0;
    int bad_record = -1;
    bool uneven = false;
  };
  explicit SlowLoader(Log& log) : log_(log) { ++log.loaders; }

  void load(Labels& batch, const std::atomic<bool>&) override {
    batch.labels.clear();
    for (const Sample& sample : batch.samples) {
      if (sample.record == log_.bad_record) throw Error("bad record ", sample.record);
      batch.labels.push_back(static_cast<int32_t>(sample.record));
    }
    if (log_.uneven && batch.samples[0].number % 3 == 0) std::this_thread::sleep_for(2ms);
    ++log_.batches;
  }

 private:
  Log& log_;
};

std::vector<int32_t> take(Prefetcher<Labels>& prefetcher, int batches) {
  std::vector<int32_t> labels;
  for (int i = 0; i < batches; ++i) {
    const Labels& batch = prefetcher.wait();
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    prefetcher.release();
  }
  return labels;
}

/// Waits, long if need be, until the counter is there.
void until(const std::atomic<int>& counter, int value) {
  for (int i = 0; i < 20000 && counter < value; ++i) std::this_thread::sleep_for(1ms);
}

Prefetcher<Labels>::MakeLoader slow(SlowLoader::Log& log) {
  return [&log] { return std::make_unique<SlowLoader>(log); };
}

TEST(Prefetcher, GivesTheSameBatchesWithAnyNumberOfThreads) {
  const SamplerOptions order{.count = 10, .shuffle = true, .seed = 5};
  Sampler expected(order);
  std::vector<int32_t> labels;
  for (int i = 0; i < 40 * 3; ++i) labels.push_back(static_cast<int32_t>(expected.next().record));

  for (const int threads : {1, 3, 8}) {
    for (const int depth : {1, 2, 5}) {
      SlowLoader::Log log;
      log.uneven = true;
      Prefetcher<Labels> prefetcher({.batch_size = 3, .threads = threads, .depth = depth},
                                    Sampler(order), slow(log));
      EXPECT_EQ(take(prefetcher, 40), labels) << threads << " threads, depth " << depth;
    }
  }
}

TEST(Prefetcher, ReadsAheadAsFarAsItsDepth) {
  SlowLoader::Log log;
  Prefetcher<Labels> prefetcher({.batch_size = 1, .threads = 2, .depth = 3}, Sampler({.count = 10}),
                                slow(log));
  until(log.batches, 3);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(log.batches, 3);
  take(prefetcher, 1);
  until(log.batches, 4);
  EXPECT_EQ(log.batches, 4);
  EXPECT_EQ(log.loaders, 2);
}

TEST(Prefetcher, CarriesAnErrorToTheBatchThatItBelongsTo) {
  SlowLoader::Log log;
  log.bad_record = 5;
  Prefetcher<Labels> prefetcher({.batch_size = 2, .threads = 3, .depth = 4}, Sampler({.count = 10}),
                                slow(log));
  EXPECT_THAT(take(prefetcher, 2), testing::ElementsAre(0, 1, 2, 3));
  expect_error([&] { prefetcher.wait(); }, {"bad record 5"});
  expect_error([&] { prefetcher.wait(); }, {"bad record 5"});
}

TEST(Prefetcher, CarriesAnErrorOfALoaderThatCannotBegin) {
  Prefetcher<Labels> prefetcher(
      {.threads = 2}, Sampler({.count = 10}),
      []() -> std::unique_ptr<BatchLoader<Labels>> { throw Error("no reader left"); });
  expect_error([&] { prefetcher.wait(); }, {"no reader left"});
}

// Threads that were running when the next one could not be started ended the program.
TEST(Prefetcher, ThreadsThatCannotBeStartedAreAnError) {
  SlowLoader::Log log;
  for (const int given : {0, 1, 3}) {
    threads_left = given;
    expect_error(
        [&] { Prefetcher<Labels>({.threads = 4, .depth = 2}, Sampler({.count = 10}), slow(log)); },
        {text("cannot start more than ", given, " of 4 threads"), "lower threads"});
    threads_left = kNoLimit;
  }
  Prefetcher<Labels> prefetcher({.threads = 4}, Sampler({.count = 10}), slow(log));
  EXPECT_THAT(take(prefetcher, 2), testing::ElementsAre(0, 1));
}

/// Takes 1.5 ms for a batch, then counts whether a thread sleeps.
class WatchingLoader : public BatchLoader<Labels> {
 public:
  WatchingLoader(const std::atomic<pid_t>& thread, std::atomic<int>& asleep)
      : thread_(thread), asleep_(asleep) {}

  void load(Labels&, const std::atomic<bool>&) override {
    std::this_thread::sleep_for(1500us);
    if (thread_ == 0) return;
    std::ifstream file(text("/proc/self/task/", thread_.load(), "/stat"));
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    // The state follows the name, which is in parentheses.
    asleep_ += stat.find(") S") != std::string::npos ? 1 : 0;
  }

 private:
  const std::atomic<pid_t>& thread_;
  std::atomic<int>& asleep_;
};

// They took half of two cores from the threads that decoded images.
TEST(Prefetcher, OpenMpThreadsSleepWhileABatchIsLoaded) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) {
    // libgomp has read it; without it, threads spin for 3 ms and more before they sleep.
    const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
    const char* const name = "Prefetcher.OpenMpThreadsSleepWhileABatchIsLoaded";
    EXPECT_EQ(std::system(text("env -u OMP_WAIT_POLICY '", program, "' --gtest_filter=", name,
                               " > /dev/null")
                              .c_str()),
              0);
    return;
  }
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "needs two processors: libgomp spins on one hardly";
  std::atomic<pid_t> thread = 0;
  std::atomic<int> asleep = 0;
  Prefetcher<Labels> prefetcher({.depth = 1}, Sampler({.count = 10}),
                                [&] { return std::make_unique<WatchingLoader>(thread, asleep); });
  const ThreadScope threads(2);
  for (int i = 0; i < 2000 && asleep == 0; ++i) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) thread = ::gettid();
    prefetcher.wait();
    prefetcher.release();
  }
  // Once is enough: a busy machine lets threads sleep late. So it may hide a thread that spins.
  EXPECT_GT(asleep, 0);
}

TEST(Prefetcher, EndsAtAnyMoment) {
  for (int i = 0; i < 50; ++i) {
    SlowLoader::Log log;
    log.uneven = true;
    {
      Prefetcher<Labels> prefetcher({.batch_size = 2, .threads = 4, .depth = 3},
                                    Sampler({.count = 10}), slow(log));
      EXPECT_EQ(take(prefetcher, i % 5).size(), 2U * static_cast<size_t>(i % 5));
    }
    const int batches = log.batches;
    EXPECT_LE(batches, i % 5 + 3) << "read ahead of its depth";
    if (i % 10 == 0) std::this_thread::sleep_for(3ms);
    EXPECT_EQ(log.batches, batches) << "a thread goes on";
  }
}

TEST(Prefetcher, MeasuresTheTimeItMadeItsCallerWait) {
  class Sleeper : public BatchLoader<Labels> {
   public:
    explicit Sleeper(std::atomic<int>& begun) : begun_(begun) {}
    void load(Labels&, const std::atomic<bool>&) override {
      ++begun_;
      std::this_thread::sleep_for(20ms);
    }

   private:
    std::atomic<int>& begun_;
  };
  std::atomic<int> begun = 0;
  Prefetcher<Labels> prefetcher({.depth = 2}, Sampler({.count = 10}),
                                [&] { return std::make_unique<Sleeper>(begun); });
  take(prefetcher, 3);
  EXPECT_GT(prefetcher.take_wait_seconds(), 0.03);
  EXPECT_EQ(prefetcher.take_wait_seconds(), 0);
  until(begun, 5);  // so that the fourth is there
  take(prefetcher, 1);
  EXPECT_EQ(prefetcher.take_wait_seconds(), 0);
}

TEST(Prefetcher, RefusesSettingsThatCannotWork) {
  const auto make = [](PrefetcherOptions options) {
    Prefetcher<Labels>(options, Sampler({.count = 1}), [] { return nullptr; });
  };
  expect_error([&] { make({.batch_size = 0}); }, {"batch_size is 0"});
  expect_error([&] { make({.threads = 0}); }, {"threads is 0"});
  expect_error([&] { make({.depth = 0}); }, {"prefetch is 0"});
}

}  // namespace
}  // namespace crema
