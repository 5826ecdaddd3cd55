// The device of the tests does its work late: a missing event or wait shows as another value.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/staged_upload.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

using Mode = FakeQueues::Mode;
constexpr size_t kBytes = sizeof(int);
constexpr Mode kModes[] = {Mode::at_once, Mode::late, Mode::upload_late, Mode::work_late};

/// An int on each side.
struct Places {
  explicit Places(FakeDevice& on)
      : device(on),
        pinned(static_cast<int*>(on.allocate_pinned(kBytes))),
        shown(static_cast<int*>(on.allocate_pinned(kBytes))),
        arrived(on.allocate(kBytes)),
        there(on.allocate(kBytes)) {
    on.fill_zero(arrived, kBytes);
    on.fill_zero(there, kBytes);
    on.synchronize();
  }
  ~Places() {
    device.synchronize();
    for (int* const place : {pinned, shown}) device.release_pinned(place);
    for (void* const place : {arrived, there}) device.release(place);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  int value() {
    const auto copied = device.make_event();
    device.download(shown, there, kBytes);
    device.record(*copied, DeviceQueue::work);
    device.wait(*copied);
    return *shown;
  }

  FakeDevice& device;
  int *pinned, *shown;
  void *arrived, *there;
};

TEST(LateQueues, WorkThatDoesNotWaitForAnUploadMissesIt) {
  for (const Mode mode : kModes) {
    for (const bool waits : {true, false}) {
      FakeDevice device(mode);
      Places at(device);
      const auto uploaded = device.make_event();
      *at.pinned = 7;
      device.upload(at.arrived, at.pinned, kBytes);
      device.record(*uploaded, DeviceQueue::upload);
      if (waits) device.queue_wait(DeviceQueue::work, *uploaded);
      device.copy(at.there, at.arrived, kBytes);
      const bool misses = !waits && (mode == Mode::late || mode == Mode::upload_late);
      EXPECT_EQ(at.value(), misses ? 0 : 7) << static_cast<int>(mode);
      device.wait(*uploaded);
    }
  }
}

TEST(LateQueues, AnUploadThatDoesNotWaitForWorkOverwritesWhatThatReads) {
  for (const bool waits : {true, false}) {
    FakeDevice device(Mode::work_late);
    Places at(device);
    const auto taken = device.make_event();
    *at.pinned = 7;
    device.copy(at.there, at.arrived, kBytes);
    device.record(*taken, DeviceQueue::work);
    if (waits) device.queue_wait(DeviceQueue::upload, *taken);
    device.upload(at.arrived, at.pinned, kBytes);
    EXPECT_EQ(at.value(), waits ? 0 : 7);
  }
}

TEST(LateQueues, PinnedMemoryThatIsNotWaitedForHasOtherValues) {
  for (const bool waits : {true, false}) {
    FakeDevice device(Mode::late);
    Places at(device);
    const auto uploaded = device.make_event();
    *at.pinned = 7;
    device.upload(at.arrived, at.pinned, kBytes);
    device.record(*uploaded, DeviceQueue::upload);
    device.queue_wait(DeviceQueue::work, *uploaded);
    if (waits) device.wait(*uploaded);
    *at.pinned = 8;
    device.copy(at.there, at.arrived, kBytes);
    EXPECT_EQ(at.value(), waits ? 7 : 8);
  }
}

TEST(LateQueues, MemoryComesInTheOrderOfTheWork) {
  FakeDevice device(Mode::work_late);
  Places at(device);
  *at.pinned = 7;
  int* const fresh = static_cast<int*>(device.allocate(kBytes));
  device.upload(fresh, at.pinned, kBytes);
  device.copy(at.there, fresh, kBytes);
  EXPECT_NE(at.value(), 7);
  device.release(fresh);
}

TEST(LateQueues, GraphsRunInTheirPlace) {
  for (const Mode mode : kModes) {
    FakeDevice device(mode);
    Places at(device);
    const int one = 1;
    device.copy_to_device(at.arrived, &one, kBytes);
    device.begin_capture();
    device.copy(at.there, at.arrived, kBytes);
    std::unique_ptr<DeviceGraph> graph = device.end_capture();
    device.launch(*graph);
    graph.reset();
    const int two = 2;
    device.copy_to_device(at.arrived, &two, kBytes);
    EXPECT_EQ(at.value(), 1);
  }
}

TEST(LateQueues, StagedUploadsKeepTheirOrder) {
  for (const Mode mode : kModes) {
    FakeDevice device(mode);
    Places at(device);
    auto* const stop = static_cast<int32_t*>(device.allocate(sizeof(int32_t)));
    device.fill_zero(stop, sizeof(int32_t));
    {
      StagedUpload staged(device, kBytes, stop);
      std::vector<int*> seen;
      for (int i = 0; i < 9; ++i) {
        staged.turn();
        *static_cast<int*>(staged.host()) = i;
        staged.upload(at.there);
        seen.push_back(static_cast<int*>(device.allocate_pinned(kBytes)));
        device.download(seen.back(), at.there, kBytes);
      }
      device.synchronize();
      for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(*seen[static_cast<size_t>(i)], i) << static_cast<int>(mode);
        device.release_pinned(seen[static_cast<size_t>(i)]);
      }
    }
    device.release(stop);
  }
}

}  // namespace
}  // namespace crema
