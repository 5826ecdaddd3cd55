#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "core/fake_device.hpp"
#include "crema/tensor.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

float* floats(void* pointer) { return static_cast<float*>(pointer); }
const float* floats(const void* pointer) { return static_cast<const float*>(pointer); }

class MemorySizes : public testing::TestWithParam<size_t> {};

TEST_P(MemorySizes, IsZeroedAndAligned) {
  Memory memory(GetParam());
  const char* begin = static_cast<const char*>(memory.host());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % 64, 0u);
  EXPECT_TRUE(std::all_of(begin, begin + GetParam(), [](char c) { return c == 0; }));
  std::fill_n(static_cast<char*>(memory.host_mut()), GetParam(), 'x');
}

INSTANTIATE_TEST_SUITE_P(Sizes, MemorySizes,
                         testing::Values(0, 1, 63, 64, kMiB - 1, kMiB, kMiB + 1, 2 * kMiB,
                                         5 * kMiB + 3));

TEST(Memory, LargeOnesLieOnHugePageBoundaries) {
  Memory memory(3 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.host()) % (2 * kMiB), 0u);
}

TEST(Memory, RefusesWhatCannotBeAllocated) {
  Memory memory(size_t{1} << 62);
  expect_error([&] { memory.host(); }, {"4611686018427387904 bytes", "host memory"});
  Memory absurd(std::numeric_limits<size_t>::max());
  expect_error([&] { absurd.host(); }, {"18446744073709551615 bytes"});
}

TEST(Memory, VersionChangesWithEveryWriteOnly) {
  FakeDevice device;
  Memory memory(64);
  uint64_t version = memory.version();
  memory.host();
  memory.device(device);
  EXPECT_EQ(memory.version(), version);
  const auto changes = [&](auto&& access) {
    access();
    const bool changed = memory.version() != version;
    version = memory.version();
    return changed;
  };
  EXPECT_TRUE(changes([&] { memory.host_mut(); }));
  EXPECT_TRUE(changes([&] { memory.host_overwrite(); }));
  EXPECT_TRUE(changes([&] { memory.device_mut(device); }));
  EXPECT_TRUE(changes([&] { memory.device_overwrite(device); }));
  EXPECT_TRUE(changes([&] { memory.zero(0, 8); }));
}

TEST(Memory, NoTwoMemoriesShareAVersion) {
  auto first = std::make_unique<Memory>(64);
  first->host_mut();
  const uint64_t version = first->version();
  first.reset();
  Memory second(64);  // likely at the same address
  second.host_mut();
  EXPECT_NE(second.version(), version);
}

TEST(Coherence, NothingMovesWithoutNeed) {
  FakeDevice device;
  Memory memory(16);
  EXPECT_EQ(floats(memory.device(device))[0], 0);  // never written: zero on either side
  floats(memory.host_overwrite())[0] = 1;
  EXPECT_EQ(device.uploads + device.downloads, 0);

  EXPECT_EQ(floats(memory.device(device))[0], 1);
  EXPECT_EQ(floats(memory.device(device))[0], 1);
  EXPECT_EQ(device.uploads, 1);

  floats(memory.device_mut(device))[0] = 2;  // both were current: still no copy
  EXPECT_EQ(device.uploads, 1);
  EXPECT_EQ(floats(memory.host())[0], 2);
  EXPECT_EQ(floats(memory.host())[0], 2);
  EXPECT_EQ(device.downloads, 1);

  floats(memory.host_mut())[0] = 3;  // current on both sides again: nothing to fetch
  EXPECT_EQ(device.downloads, 1);
  EXPECT_EQ(floats(memory.device(device))[0], 3);
  EXPECT_EQ(device.uploads, 2);
}

TEST(Coherence, OverwritingFetchesNothing) {
  FakeDevice device;
  Memory memory(16);
  memory.host_overwrite();
  memory.device_overwrite(device);
  EXPECT_EQ(device.uploads, 0);
  memory.host_overwrite();
  EXPECT_EQ(device.downloads, 0);
}

TEST(Coherence, MutableAccessFetchesTheNewerCopy) {
  FakeDevice device;
  Memory memory(16);
  floats(memory.device_overwrite(device))[1] = 5;
  EXPECT_EQ(floats(memory.host_mut())[1], 5);
  floats(memory.host_mut())[2] = 6;
  EXPECT_EQ(floats(memory.device_mut(device))[2], 6);
}

TEST(Coherence, ZeroingHappensWhereTheNewestCopyIs) {
  FakeDevice device;
  Memory memory(16);
  floats(memory.device_overwrite(device))[0] = 1;
  floats(memory.device_overwrite(device))[3] = 4;
  memory.zero(0, 8);
  EXPECT_EQ(device.uploads + device.downloads, 0);
  EXPECT_EQ(floats(memory.host())[0], 0);
  EXPECT_EQ(floats(memory.host())[3], 4);

  memory.zero(8, 8);  // both are current, and stay so
  EXPECT_EQ(floats(memory.host())[3], 0);
  EXPECT_EQ(floats(memory.device(device))[3], 0);
  EXPECT_EQ(device.uploads, 0);
  EXPECT_EQ(device.downloads, 1);
  expect_error([&] { memory.zero(12, 8); }, {"8 bytes at 12", "16"});
}

TEST(Coherence, DeviceMemoryIsReleasedWithIt) {
  FakeDevice device;
  auto memory = std::make_shared<Memory>(16);
  auto piece = std::make_shared<Memory>(memory, 0, 8);
  piece->device(device);
  memory.reset();
  EXPECT_EQ(device.held(), 1u);  // the piece keeps the whole alive
  piece.reset();
  EXPECT_EQ(device.held(), 0u);
}

TEST(Coherence, AnotherDeviceIsRefused) {
  FakeDevice first, second;
  Memory memory(16);
  memory.device(first);
  expect_error([&] { memory.device(second); }, {"another device"});
}

TEST(Pieces, LieInTheirParent) {
  auto parent = std::make_shared<Memory>(256);
  char* begin = static_cast<char*>(parent->host_mut());
  begin[65] = 7;
  Memory piece(parent, 64, 64);
  EXPECT_EQ(piece.host(), begin + 64);
  EXPECT_EQ(static_cast<const char*>(piece.host())[1], 7);
}

TEST(Pieces, OfPiecesAddOffsets) {
  auto parent = std::make_shared<Memory>(256);
  auto piece = std::make_shared<Memory>(parent, 64, 128);
  Memory inner(piece, 32, 32);
  EXPECT_EQ(inner.host(), static_cast<const char*>(parent->host()) + 96);
}

TEST(Pieces, MustFit) {
  auto parent = std::make_shared<Memory>(256);
  expect_error([&] { Memory(parent, 200, 57); }, {"57 bytes at 200", "256"});
  expect_error([&] { Memory(parent, 257, 0); }, {"at 257"});
  expect_error([&] { Memory(parent, 8, std::numeric_limits<size_t>::max()); }, {"exceeds"});
}

TEST(Pieces, MoveByThemselves) {
  FakeDevice device;
  auto parent = std::make_shared<Memory>(64);
  Memory left(parent, 0, 16), right(parent, 16, 48);
  floats(left.host_overwrite())[0] = 1;
  floats(right.device_overwrite(device))[0] = 2;
  EXPECT_EQ(floats(left.device(device))[0], 1);
  EXPECT_EQ(device.bytes_up, 16u);
  EXPECT_EQ(floats(right.host())[0], 2);
  EXPECT_EQ(device.bytes_down, 48u);
  EXPECT_EQ(floats(left.host())[0], 1);
}

TEST(Pieces, StartWithTheStateOfTheirParent) {
  FakeDevice device;
  auto parent = std::make_shared<Memory>(64);
  floats(parent->device_overwrite(device))[4] = 3;
  Memory piece(parent, 16, 16);
  EXPECT_EQ(floats(piece.host())[0], 3);
  EXPECT_EQ(device.bytes_down, 16u);
}

TEST(Pieces, ZeroingOneClearsOldContents) {
  auto parent = std::make_shared<Memory>(64);
  Memory first(parent, 0, 32);
  std::fill_n(floats(first.host_overwrite()), 8, 9.0f);
  Memory second(parent, 16, 16);  // its turn comes after the first one's
  second.zero(0, 16);
  EXPECT_EQ(floats(second.host())[0], 0);
  EXPECT_EQ(floats(first.host())[3], 9);
}

}  // namespace
}  // namespace crema
