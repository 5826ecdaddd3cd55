// Copies of parameters in the order of a device's kernels: who writes them, and when. On a device
// that lives in host memory.
#include "backend/parameter_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/memory.hpp"
#include "crema/context.hpp"
#include "support/fake_context.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

struct Case {
  const char* name;
  DepthMap map;
  int64_t outputs;
};

std::vector<Case> cases() {
  return {
      {"in order", DepthMap::plain(6, {1, 1, 1}), 5},
      {"a bias", DepthMap::plain(1, {1, 1, 1}), 7},
      {"of depth 1", DepthMap::plain(1, {1, 3, 3}), 4},
      {"plain", DepthMap::plain(5, {1, 3, 2}), 4},
      {"deep", DepthMap::deep(3, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, {1, 32, 30}, {1, 16, 15}, 8), 4},
      {"volumes", DepthMap::deep(2, {3, 2, 5}, {2, 1, 3}, {1, 0, 2}, {9, 8, 7}, {5, 7, 3}, 4), 3}};
}

std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return values;
}

/// What an update writes, chunk for chunk, is what the launch of a copy writes, but for the zeros,
/// which it leaves there.
template <class To, class From>
void expect_same_copies(const Case& c, DType dtype) {
  const DepthMap map = c.map.of_weights();
  const auto count = static_cast<size_t>(c.outputs) * map.weights();
  const auto deep = static_cast<size_t>(c.outputs) * map.deep_weights();
  const std::vector<float> numbers = crema::numbers(count);
  const std::vector<From> values(numbers.begin(), numbers.end());
  std::vector<To> expected(deep), found(deep);
  const DeepenWeights<To, From> whole{c.map, values.data(), expected.data()};
  for (size_t i = 0; i < deep; ++i) whole(static_cast<int64_t>(i));
  const int64_t first[] = {0, 0, 1};
  const CopyTarget targets[] = {{map, dtype, found.data()}};
  const CopyTable table{first, targets};
  constexpr int64_t kLanes = 3, kChunk = 11;
  for (int64_t begin = 0; begin < std::ssize(values); begin += kChunk) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      table.write(1, values.data(), begin, std::min(begin + kChunk, std::ssize(values)), lane,
                  kLanes);
      table.write(0, values.data(), begin, std::ssize(values), lane, kLanes);  // has none
    }
  }
  for (size_t i = 0; i < deep; ++i) {
    EXPECT_EQ(static_cast<float>(found[i]), static_cast<float>(expected[i])) << i;
  }
}

TEST(CopyTarget, WritesWhatACopyHolds) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    expect_same_copies<bfloat16, float>(c, DType::bf16);
    expect_same_copies<float16, float>(c, DType::f16);
    expect_same_copies<float, float>(c, DType::f32);
    expect_same_copies<bfloat16, double>(c, DType::bf16);
  }
  CopyTable().write(0, static_cast<const float*>(nullptr), 0, 4, 0, 1);  // none at all
}

TEST(CopyTarget, OrdersThatAreThatOfTheValues) {
  EXPECT_TRUE(DepthMap::plain(6, {1, 1, 1}).keeps_order());
  EXPECT_TRUE(DepthMap::plain(1, {1, 3, 3}).keeps_order());
  EXPECT_FALSE(DepthMap::plain(2, {1, 3, 1}).keeps_order());
  EXPECT_FALSE(cases()[4].map.keeps_order());
  // The extents of the pixels say nothing of weights.
  const auto map = [](uint32_t extent) {
    return DepthMap::deep(3, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, {1, extent, extent},
                          {1, extent / 2, extent / 2}, 8);
  };
  EXPECT_NE(map(32), map(64));
  EXPECT_EQ(map(32).of_weights(), map(64).of_weights());
}

class Copies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
  }

  FakeContext on_;
  DeviceBackend& backend() { return on_.context().backend(); }
  ParameterCopies& copies() { return ParameterCopies::of(on_.context().device_run()); }
  static ParameterStorage storage_of(const std::vector<float>& values) {
    Tensor data(Shape{std::ssize(values)});
    std::copy(values.begin(), values.end(), data.changing<float>().data());
    return {data, Tensor(Shape{0})};
  }
  const ParameterCopy::Form form_{DepthMap::plain(3, {1, 2, 2}), 2, DType::bf16};
};

TEST_F(Copies, AreWrittenWhereTheValuesHaveChanged) {
  ParameterStorage values = storage_of(numbers(24));
  const auto copy = copies().get(backend(), values, form_);
  const auto expect_copy = [&](int64_t launches) {
    const auto* const found = static_cast<const bfloat16*>(copy->read());
    EXPECT_EQ(copy->launches(), launches);
    for (int64_t k = 0; k < 2; ++k) {
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t t = 0; t < 4; ++t) {
          const auto value = static_cast<float>(values.data().at((k * 3 + c) * 4 + t));
          EXPECT_EQ(found[(k * 4 + t) * 3 + c].bits, bfloat16(value).bits);
        }
      }
    }
  };
  expect_copy(1);
  expect_copy(1);
  Tensor same = values.data();
  same.changing<float>().data()[5] = 9;
  expect_copy(2);
  EXPECT_TRUE(copy->is_current());
  // A pointer that somebody may write through: nobody knows when.
  float* const open = same.change<float>();
  EXPECT_FALSE(copy->is_current());
  open[0] = 4;
  expect_copy(3);
  EXPECT_FALSE(copy->is_current());
  EXPECT_TRUE(copies().current(*values.data().memory()).empty());
  same.seal();
  expect_copy(4);
  EXPECT_EQ(copies().current(*values.data().memory()).size(), 1U);
}

TEST_F(Copies, ReadersOfAFormShareACopy) {
  ParameterStorage values = storage_of(numbers(24)), others = storage_of(numbers(24));
  auto copy = copies().get(backend(), values, form_);
  EXPECT_EQ(copies().get(backend(), values, form_), copy);
  EXPECT_NE(copies().get(backend(), others, form_), copy);
  ParameterCopy::Form other = form_;
  other.dtype = DType::f16;
  EXPECT_NE(copies().get(backend(), values, other), copy);
  copy->read();
  const int held = static_cast<int>(on_.device().held());
  copy.reset();
  EXPECT_EQ(static_cast<int>(on_.device().held()), held - 1);
  EXPECT_TRUE(copies().current(*values.data().memory()).empty());
}

TEST_F(Copies, RecordsNameThemAndWriteNone) {
  ParameterStorage values = storage_of(numbers(24));
  const auto copy = copies().get(backend(), values, form_);
  copy->read();
  Tensor same = values.data();
  same.changing<float>().data()[0] = 9;
  AccessLog log;
  backend().set_access_log(&log);
  copy->read();
  backend().set_access_log(nullptr);
  EXPECT_EQ(copy->launches(), 1);
  ASSERT_EQ(log.followers().size(), 1U);
  EXPECT_FALSE(log.followers()[0].writes);
  log.followers()[0].follower.lock()->follow();
  EXPECT_EQ(copy->launches(), 2);
}

}  // namespace
}  // namespace crema
