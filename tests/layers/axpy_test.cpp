// Values: the cases axpy and axpy_4d of tests/golden/torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

constexpr const char* kAxpy = "layer { type: 'Axpy' }";

LayerCase axpy(const Shape& scales, const Shape& maps) {
  return {.layer = kAxpy, .bottoms = {uniform(scales), uniform(maps), uniform(maps)}};
}

TEST(Axpy, Gradients) {
  check_gradients(axpy({2, 3}, {2, 3, 4, 5}));
  check_gradients(axpy({2, 3, 1, 1}, {2, 3, 2, 2}));
  check_gradients(axpy({4, 3}, {4, 3}));
}

TEST(Axpy, EveryEngineAndFormat) {
  EXPECT_THAT(check_engines(axpy({2, 13}, {2, 13, 4, 5})),
              testing::IsSupersetOf({"reference contiguous"}));
  EXPECT_THAT(check_engines(axpy({2, 13, 1, 1}, {2, 13, 4, 5})),
              testing::IsSupersetOf({"reference contiguous", "reference channels_last"}));
  check_engines(axpy({3, 70}, {3, 70, 31, 9}));
  check_engines(axpy({2, 0}, {2, 0, 3}));
}

TEST(Axpy, OnlyTheDiffsThatAreWanted) {
  for (size_t i = 0; i < 3; ++i) {
    LayerRun all(axpy({2, 3}, {2, 3, 4})), one(axpy({2, 3}, {2, 3, 4}));
    all.forward();
    all.backward();
    const std::vector<bool> wanted = one.want_only(i);
    one.forward();
    one.backward(wanted);
    EXPECT_EQ(one.bottom_diff(static_cast<int>(i)), all.bottom_diff(static_cast<int>(i)));
  }
}

TEST(Axpy, ShapesThatDoNotFit) {
  const auto refuses = [](const Shape& s, const Shape& x, const Shape& z,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = kAxpy, .bottoms = {uniform(s), uniform(x), uniform(z)}});
        },
        parts);
  };
  refuses({2, 4}, {2, 3, 5}, {2, 3, 5}, {"bottom0", "2x4", "2 x 3 channels", "2x3x5"});
  refuses({6}, {2, 3, 5}, {2, 3, 5}, {"bottom0", "one scale for each"});
  refuses({2, 3}, {2, 3, 5}, {2, 3, 6}, {"bottom2", "2x3x6", "2x3x5"});
  refuses({2}, {2}, {2}, {"no channels"});
}

}  // namespace
}  // namespace crema::test
