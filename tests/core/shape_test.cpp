#include "crema/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

constexpr int64_t kBig = int64_t{1} << 40;

TEST(Shape, CountsAllOrSomeAxes) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(shape.rank(), 4);
  EXPECT_EQ(shape.count(), 120);
  EXPECT_EQ(shape.count(1), 60);
  EXPECT_EQ(shape.count(1, 3), 12);
  EXPECT_EQ(shape.count(4), 1);
  EXPECT_EQ(shape.count(2, 2), 1);
}

TEST(Shape, RankZeroIsAScalar) {
  const Shape shape;
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_EQ(shape.count(), 1);
  EXPECT_EQ(shape.str(), "scalar");
  expect_error([&] { shape[0]; }, {"axis 0", "scalar"});
}

TEST(Shape, NegativeAxesCountFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.canonical_axis(-2), 1);
  expect_error([&] { shape[3]; }, {"axis 3", "2x3x4", "-3 to 2"});
  expect_error([&] { shape[-4]; }, {"axis -4", "2x3x4"});
}

TEST(Shape, MissingAxesOfLowerRanksAreOne) {
  const Shape shape{7, 9};
  EXPECT_EQ(shape.dim_or_1(1), 9);
  EXPECT_EQ(shape.dim_or_1(2), 1);
}

TEST(Shape, RefusesNegativeDimensions) {
  expect_error([] { Shape{2, -1}; }, {"2x-1", "dimension 1"});
  Shape shape{2, 3};
  expect_error([&] { shape.set(1, -5); }, {"-5", "2x3"});
  shape.set(-1, 6);
  EXPECT_EQ(shape, (Shape{2, 6}));
}

TEST(Shape, CountsBeyondTwoToThe31) {
  EXPECT_EQ((Shape{70000, 70000}).count(), int64_t{4900000000});
}

TEST(Shape, OverflowIsAnError) {
  const Shape shape{kBig, kBig};
  EXPECT_EQ(shape.count(1), kBig);
  expect_error([&] { shape.count(); }, {"1099511627776x1099511627776", "64 bits"});
}

TEST(Shape, ZeroWinsOverOverflow) { EXPECT_EQ((Shape{kBig, kBig, 0}).count(), 0); }

TEST(Shape, RefusesRangesOutsideItsAxes) {
  const Shape shape{2, 3};
  expect_error([&] { shape.count(0, 3); }, {"[0, 3)", "rank is 2"});
  expect_error([&] { shape.count(2, 1); }, {"[2, 1)"});
  expect_error([&] { shape.count(-1, 2); }, {"[-1, 2)"});
}

TEST(Shape, Prints) {
  const Shape shape{64, 3, 28, 28};
  EXPECT_EQ(shape.str(), "64x3x28x28");
}

}  // namespace
}  // namespace crema
