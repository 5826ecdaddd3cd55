#include "core/finite.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace crema {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Finite, NamesTheFirstInLogicalOrder) {
  Tensor tensor(Shape{1, 2, 1, 3}, DType::f32, Format::channels_last);
  tensor.fill(1);
  EXPECT_EQ(first_not_finite(tensor), -1);
  tensor.change<float>()[1] = kNaN;  // in memory: the second channel of the first pixel
  EXPECT_EQ(first_not_finite(tensor), 3);
  EXPECT_EQ(describe_element(tensor, 3), "nan at (0, 1, 0, 0)");
  tensor.change<float>()[4] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(describe_element(tensor, first_not_finite(tensor)), "-inf at (0, 0, 0, 2)");
}

TEST(Finite, ScalarsAndEmptyTensors) {
  Tensor scalar(Shape{}, DType::f64);
  scalar.fill(static_cast<double>(kNaN));
  EXPECT_EQ(describe_element(scalar, first_not_finite(scalar)), "nan");
  EXPECT_EQ(first_not_finite(Tensor(Shape{0, 3})), -1);
}

}  // namespace
}  // namespace crema
