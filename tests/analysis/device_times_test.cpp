// The schedule of points in a device's stream, on a device that notes what it is asked.
#include "analysis/device_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "analysis/device_net.hpp"
#include "support/fake_context.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::kDeviceNet;
using test::net_param;
using testing::DoubleEq;
using testing::ElementsAre;

DeviceNotes only(const DeviceNotes& notes, std::initializer_list<std::string_view> words) {
  DeviceNotes found;
  for (const std::string& entry : notes) {
    if (std::ranges::count(words, entry) > 0) found.push_back(entry);
  }
  return found;
}

/// That many times the word.
void add(DeviceNotes& notes, size_t times, const std::string& word) {
  notes.insert(notes.end(), times, word);
}

TEST(DeviceTimes, NothingWaitsBetweenSteps) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  for (const bool with_backward : {false, true}) {
    SCOPED_TRACE(with_backward);
    FakeContext fake;
    Net net(net_param(text("force_backward: true", kDeviceNet)), fake.context());
    std::vector<int> whole;
    DeviceTiming timing{.iterations = 2, .with_backward = with_backward};
    timing.iterate = [&](int iterations) { whole.push_back(iterations); };
    const DeviceTimes times = time_on_device(net, timing);
    const size_t steps = net.steps().size();
    const auto back = static_cast<size_t>(
        with_backward ? std::ranges::count_if(net.steps(), &NetStep::backward) : 0);
    EXPECT_GE(steps, 4u);
    DeviceNotes expected;
    add(expected, 2 * (1 + steps + back), "record");  // of each step
    add(expected, 1, "wait");
    add(expected, 2 * size_t{3}, "record");  // around the passes
    add(expected, 2, "wait");                // and one before whole iterations
    add(expected, 2, "record");
    add(expected, 1, "wait");
    EXPECT_EQ(only(fake.device().notes, {"record", "wait"}), expected);
    EXPECT_THAT(whole, ElementsAre(kFirstIterations, 2));
    ASSERT_EQ(times.forward.size(), steps);
    EXPECT_THAT(std::accumulate(times.forward.begin(), times.forward.end(), 0.0),
                DoubleEq(times.forward_total));
    EXPECT_THAT(std::accumulate(times.backward.begin(), times.backward.end(), 0.0),
                DoubleEq(times.backward_total));
    for (size_t s = 0; s < steps; ++s) {
      if (net.steps()[s].type == "Concat") {
        EXPECT_EQ(times.forward[s], 1);
      }
      if (!with_backward) {
        EXPECT_EQ(times.backward[s], 0);
      }
    }
  }
}

TEST(DeviceTimes, WithoutASolverPassesAreIterations) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  FakeContext fake;
  Net net(net_param(text("force_backward: true", kDeviceNet)), fake.context());
  const DeviceTimes times = time_on_device(net, {.iterations = 3});
  EXPECT_THAT(times.iteration, DoubleEq(times.whole_forward + times.whole_backward));
  EXPECT_GT(times.iteration, 0);
  EXPECT_GT(times.host_iteration, 0);
}

TEST(DeviceTimes, CeilingsAreMeasuredWithoutKeepingMemory) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  TimedDevice device;
  const DeviceCeilings ceilings = measure_ceilings(device);
  EXPECT_EQ(device.held(), 0u);
  // A copy of 256 * 256 floats takes 1 ms, and is read and written.
  EXPECT_DOUBLE_EQ(ceilings.copy_bytes, 2 * 262144 * 1e3);
  EXPECT_EQ(ceilings.f32, 0);
}

TEST(DeviceTimes, AStepIsNearTheCeilingThatItIsNearestTo) {
  const DeviceCeilings ceilings{.copy_bytes = 1e9, .f32 = 1e12, .tf32 = 4e12, .bf16 = 8e12};
  NetStep step;
  const auto share = [&](bool tf32, double bytes, double flops) {
    const CeilingShare found = share_of(ceilings, step, tf32, 1, bytes, flops);
    return text(found.share, " ", found.ceiling);
  };
  EXPECT_EQ(share(false, 5e5, 1e8), "0.5 copy");
  EXPECT_EQ(share(false, 5e5, 8e8), "0.8 f32");
  EXPECT_EQ(share(true, 1e5, 8e8), "0.2 tf32");
  step.bottom_format = "bf16 channels_last";
  EXPECT_EQ(share(true, 1e5, 2e9), "0.25 bf16");
  EXPECT_EQ(share_of({}, step, true, 1, 1e5, 2e9).share, 0);
  EXPECT_EQ(share_of(ceilings, step, true, 0, 1e5, 2e9).share, 0);
}

}  // namespace
}  // namespace crema
