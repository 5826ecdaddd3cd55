#include "core/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include "crema/tensor.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr auto kRead = Access::read;
constexpr auto kChange = Access::change;
constexpr auto kOverwrite = Access::overwrite;

float* floats(void* pointer) { return static_cast<float*>(pointer); }

class MemorySizes : public testing::TestWithParam<size_t> {};

TEST_P(MemorySizes, IsZeroedAndAligned) {
  Memory memory(GetParam());
  const char* begin = static_cast<const char*>(memory.access(kRead));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % 64, 0u);
  EXPECT_TRUE(std::all_of(begin, begin + GetParam(), [](char c) { return c == 0; }));
  std::fill_n(static_cast<char*>(memory.access(kChange)), GetParam(), 'x');
}

INSTANTIATE_TEST_SUITE_P(Sizes, MemorySizes,
                         testing::Values(0, 1, 63, 64, kMiB - 1, kMiB, kMiB + 1, 2 * kMiB,
                                         5 * kMiB + 3));

TEST(Memory, LargeOnesLieOnHugePageBoundaries) {
  Memory memory(3 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.access(kRead)) % (2 * kMiB), 0u);
}

// Blocks of medium size lie side by side; what one leaves is not seen in another.
TEST(Memory, MediumOnesAreZeroedWhateverLayThereBefore) {
  constexpr size_t kSizes[] = {32 << 10, 100'001, 300'000, kMiB, 2 * kMiB - 1};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Memory>> all;
    for (int i = 0; i < 40; ++i) {
      const size_t size = kSizes[static_cast<size_t>(i + round) % std::size(kSizes)];
      Memory& memory = *all.emplace_back(std::make_unique<Memory>(size));
      const char* const begin = static_cast<const char*>(memory.access(kRead));
      ASSERT_TRUE(std::all_of(begin, begin + size, [](char c) { return c == 0; })) << round << i;
      std::fill_n(static_cast<char*>(memory.access(kChange)), size, static_cast<char>(i + 1));
      if (i % 3 == 2) all.erase(all.begin() + i / 3);
    }
    for (const auto& memory : all) {
      const char* const begin = static_cast<const char*>(memory->access(kRead));
      const char mark = *begin;
      EXPECT_NE(mark, 0);
      EXPECT_TRUE(std::all_of(begin, begin + memory->bytes(), [=](char c) { return c == mark; }));
    }
  }
}

TEST(Memory, RefusesWhatCannotBeAllocated) {
  Memory memory(size_t{1} << 62);
  expect_error([&] { memory.access(kRead); }, {"4611686018427387904 bytes", "host memory"});
  Memory absurd(std::numeric_limits<size_t>::max());
  expect_error([&] { absurd.access(kRead); }, {"18446744073709551615 bytes"});
}

TEST(Memory, VersionChangesWithEveryWriteOnly) {
  FakeDevice device;
  Memory memory(64);
  uint64_t version = memory.version();
  memory.access(kRead);
  memory.access(kRead, &device);
  EXPECT_EQ(memory.version(), version);
  const auto changes = [&](auto&& access) {
    access();
    const bool changed = memory.version() != version;
    version = memory.version();
    return changed;
  };
  EXPECT_TRUE(changes([&] { memory.access(kChange); }));
  EXPECT_TRUE(changes([&] { memory.access(kOverwrite); }));
  EXPECT_TRUE(changes([&] { memory.access(kChange, &device); }));
  EXPECT_TRUE(changes([&] { memory.access(kOverwrite, &device); }));
  EXPECT_TRUE(changes([&] { memory.zero(0, 8); }));
}

TEST(Memory, NoTwoMemoriesShareAVersion) {
  auto first = std::make_unique<Memory>(64);
  first->access(kChange);
  const uint64_t version = first->version();
  first.reset();
  Memory second(64);  // likely at the same address
  second.access(kChange);
  EXPECT_NE(second.version(), version);
}

TEST(Coherence, NothingMovesWithoutNeed) {
  FakeDevice device;
  Memory memory(16);
  EXPECT_EQ(floats(memory.access(kRead, &device))[0], 0);  // never written: zero on either side
  floats(memory.access(kOverwrite))[0] = 1;
  EXPECT_EQ(device.uploads + device.downloads, 0);

  EXPECT_EQ(floats(memory.access(kRead, &device))[0], 1);
  EXPECT_EQ(floats(memory.access(kRead, &device))[0], 1);
  EXPECT_EQ(device.uploads, 1);

  floats(memory.access(kChange, &device))[0] = 2;  // both were current: still no copy
  EXPECT_EQ(device.uploads, 1);
  EXPECT_EQ(floats(memory.access(kRead))[0], 2);
  EXPECT_EQ(floats(memory.access(kRead))[0], 2);
  EXPECT_EQ(device.downloads, 1);

  floats(memory.access(kChange))[0] = 3;  // current on both sides again: nothing to fetch
  EXPECT_EQ(device.downloads, 1);
  EXPECT_EQ(floats(memory.access(kRead, &device))[0], 3);
  EXPECT_EQ(device.uploads, 2);
}

TEST(Coherence, OverwritingFetchesNothing) {
  FakeDevice device;
  Memory memory(16);
  memory.access(kOverwrite);
  memory.access(kOverwrite, &device);
  EXPECT_EQ(device.uploads, 0);
  memory.access(kOverwrite);
  EXPECT_EQ(device.downloads, 0);
}

TEST(Coherence, MutableAccessFetchesTheNewerCopy) {
  FakeDevice device;
  Memory memory(16);
  floats(memory.access(kOverwrite, &device))[1] = 5;
  EXPECT_EQ(floats(memory.access(kChange))[1], 5);
  floats(memory.access(kChange))[2] = 6;
  EXPECT_EQ(floats(memory.access(kChange, &device))[2], 6);
}

TEST(Coherence, ZeroingHappensWhereTheNewestCopyIs) {
  FakeDevice device;
  Memory memory(16);
  floats(memory.access(kOverwrite, &device))[0] = 1;
  floats(memory.access(kOverwrite, &device))[3] = 4;
  memory.zero(0, 8);
  EXPECT_EQ(device.uploads + device.downloads, 0);
  EXPECT_EQ(floats(memory.access(kRead))[0], 0);
  EXPECT_EQ(floats(memory.access(kRead))[3], 4);

  memory.zero(8, 8);  // both are current, and stay so
  EXPECT_EQ(floats(memory.access(kRead))[3], 0);
  EXPECT_EQ(floats(memory.access(kRead, &device))[3], 0);
  EXPECT_EQ(device.uploads, 0);
  EXPECT_EQ(device.downloads, 1);
  expect_error([&] { memory.zero(12, 8); }, {"8 bytes at 12", "16"});
}

TEST(Coherence, DeviceMemoryIsReleasedWithIt) {
  FakeDevice device;
  auto memory = std::make_shared<Memory>(16);
  auto piece = std::make_shared<Memory>(memory, 0, 8);
  piece->access(kRead, &device);
  memory.reset();
  EXPECT_EQ(device.held(), 1u);  // the piece keeps the whole alive
  piece.reset();
  EXPECT_EQ(device.held(), 0u);
}

TEST(Coherence, AnotherDeviceIsRefused) {
  FakeDevice first, second;
  Memory memory(16);
  memory.access(kRead, &first);
  expect_error([&] { memory.access(kRead, &second); }, {"another device"});
}

TEST(Pieces, LieInTheirParent) {
  auto parent = std::make_shared<Memory>(256);
  char* begin = static_cast<char*>(parent->access(kChange));
  begin[65] = 7;
  Memory piece(parent, 64, 64);
  EXPECT_EQ(piece.access(kRead), begin + 64);
  EXPECT_EQ(static_cast<const char*>(piece.access(kRead))[1], 7);
}

TEST(Pieces, OfPiecesAddOffsets) {
  auto parent = std::make_shared<Memory>(256);
  auto piece = std::make_shared<Memory>(parent, 64, 128);
  Memory inner(piece, 32, 32);
  EXPECT_EQ(inner.access(kRead), static_cast<const char*>(parent->access(kRead)) + 96);
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
  floats(left.access(kOverwrite))[0] = 1;
  floats(right.access(kOverwrite, &device))[0] = 2;
  EXPECT_EQ(floats(left.access(kRead, &device))[0], 1);
  EXPECT_EQ(device.bytes_up, 16u);
  EXPECT_EQ(floats(right.access(kRead))[0], 2);
  EXPECT_EQ(device.bytes_down, 48u);
  EXPECT_EQ(floats(left.access(kRead))[0], 1);
}

TEST(Pieces, StartWithTheStateOfTheirParent) {
  FakeDevice device;
  auto parent = std::make_shared<Memory>(64);
  floats(parent->access(kOverwrite, &device))[4] = 3;
  Memory piece(parent, 16, 16);
  EXPECT_EQ(floats(piece.access(kRead))[0], 3);
  EXPECT_EQ(device.bytes_down, 16u);
}

TEST(Pieces, ZeroingOneClearsOldContents) {
  auto parent = std::make_shared<Memory>(64);
  Memory first(parent, 0, 32);
  std::fill_n(floats(first.access(kOverwrite)), 8, 9.0f);
  Memory second(parent, 16, 16);  // its turn comes after the first one's
  second.zero(0, 16);
  EXPECT_EQ(floats(second.access(kRead))[0], 0);
  EXPECT_EQ(floats(first.access(kRead))[3], 9);
}

TEST(Memory, StagedContentsGoToTheDeviceInTurn) {
  FakeDevice device;
  int32_t stop = 0;  // the device's memory is the host's
  const auto memory = std::make_shared<Memory>(16);
  memory->stage(device, &stop);
  const auto write = [&](int32_t value) {
    std::fill_n(static_cast<int32_t*>(memory->access(Access::overwrite)), 4, value);
    return static_cast<const int32_t*>(memory->access(Access::read, &device))[3];
  };
  EXPECT_EQ(write(1), 1);
  device.clear();
  for (int32_t value = 2; value < 8; ++value) EXPECT_EQ(write(value), value);
  EXPECT_EQ(device.count(FakeDevice::Step::Kind::stall), 0);
  EXPECT_EQ(device.count(FakeDevice::Step::Kind::upload), 6);
  stop = 1;
  EXPECT_EQ(write(9), 7);
  memory->trust_device();
  EXPECT_EQ(static_cast<const int32_t*>(memory->access(Access::read))[0], 7);
}

}  // namespace
}  // namespace crema
