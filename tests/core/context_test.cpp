#include "crema/context.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/device.hpp"
#include "core/tuner.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

/// Sets OMP_NUM_THREADS, or removes it, while it lives.
class ThreadsVariable {
 public:
  explicit ThreadsVariable(const char* value) {
    if (const char* before = std::getenv("OMP_NUM_THREADS")) before_ = before;
    set(value);
  }
  ~ThreadsVariable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value == nullptr) {
      unsetenv("OMP_NUM_THREADS");
    } else {
      setenv("OMP_NUM_THREADS", value, 1);
    }
  }
  std::optional<std::string> before_;
};

TEST(Context, TakesTheThreadsItIsGiven) {
  const ThreadsVariable variable("5");
  EXPECT_EQ(Context({.threads = 3}).threads(), 3);
}

TEST(Context, FollowsTheEnvironment) {
  const ThreadsVariable variable("5");
  EXPECT_EQ(Context().threads(), 5);
  const ThreadsVariable nested("4,2");
  EXPECT_EQ(Context().threads(), 4);
  const ThreadsVariable empty("");
  EXPECT_GE(Context().threads(), 1);
}

TEST(Context, RefusesNonsenseInTheEnvironment) {
  for (const char* value : {"many", "0", "-2", "3x", "99999999999999999999"}) {
    const ThreadsVariable variable(value);
    expect_error([] { Context context; }, {"OMP_NUM_THREADS", value});
  }
}

TEST(Context, UsesTheCoresOfTheAffinityMask) {
  const ThreadsVariable variable(nullptr);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(Context().threads(), CPU_COUNT(&before));
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  // A thread of its own: the affinity of the test program stays.
  int threads = 0;
  std::thread([&] {
    if (sched_setaffinity(0, sizeof(one), &one) == 0) threads = Context().threads();
  }).join();
  EXPECT_EQ(threads, 1);
}

TEST(Context, RefusesAbsurdThreads) {
  expect_error([] { Context context({.threads = -1}); }, {"-1 threads", "0 for all"});
  expect_error([] { Context context({.threads = 100000}); }, {"100000 threads"});
}

TEST(Context, KeepsItsOptions) {
  Context context({.seed = 9, .engine = "reference", .tune = false});
  EXPECT_EQ(context.seed(), 9u);
  EXPECT_EQ(context.engine(), "reference");
  EXPECT_FALSE(context.tune());
  EXPECT_EQ(context.device(), Device{});
  EXPECT_FALSE(context.on_gpu());
  context.tuner().choose("p", "c");
  EXPECT_EQ(context.tuner().choices().size(), 1u);
}

TEST(Context, LogsToItsLogger) {
  std::vector<std::string> messages;
  const Context context({.logger = [&](Severity severity, const std::string& message) {
    messages.push_back(text(static_cast<int>(severity), ' ', message));
  }});
  context.log(Severity::warning, "slow data");
  EXPECT_EQ(messages, std::vector<std::string>{"2 slow data"});
}

TEST(Context, PrintsNothingWithoutOne) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Context().log(Severity::error, "unheard");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Context, OnTheCpuHasNoBackend) {
  const Context context;
  expect_error([&] { context.backend(); }, {"CPU", "ContextOptions::device"});
}

TEST(Context, DevicesThatAreNotThereAreErrors) {
  expect_error([] { Context context({.device = {DeviceType::cuda, -1}}); }, {"device -1"});
  std::string why;
  const size_t count = cuda_devices(why).size();
  if (count == 0) {
    EXPECT_NE(why, "");
  }
  const int missing = static_cast<int>(count);
  expect_error(
      [&] {
        Context context({.device = {DeviceType::cuda, missing}});
      },
      {"CUDA device", std::to_string(missing)});
}

}  // namespace
}  // namespace crema
