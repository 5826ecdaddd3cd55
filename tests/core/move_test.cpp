// Moving data on the host and on a device: the same results, and on the device nothing goes through
// the host.
#include "core/move.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/fake_device.hpp"

namespace crema {
namespace {

/// Values are (index * factor) % 50, in logical order.
Tensor numbered(const Shape& shape, DType dtype = DType::f32, int64_t factor = 1,
                Format format = Format::contiguous) {
  Tensor values(shape, DType::f64);
  double* to = values.overwrite<double>();
  for (int64_t i = 0; i < values.count(); ++i) to[i] = static_cast<double>(i * factor % 50);
  return values.to(dtype, format);
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.at(i));
  return values;
}

class Move : public testing::TestWithParam<bool> {
 protected:
  ComputeDevice device() { return GetParam() ? ComputeDevice(device_) : ComputeDevice(); }
  /// Moves everything so far to the side, and nothing more from then on.
  void settle(std::initializer_list<Tensor*> tensors) {
    for (Tensor* tensor : tensors) device().read_bytes(*tensor);
    downloads_ = device_.downloads;
  }
  void expect_stayed() { EXPECT_EQ(device_.downloads, downloads_); }

  FakeDevice device_;
  int downloads_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Sides, Move, testing::Bool());

TEST_P(Move, CopiesAnyType) {
  for (DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
    Tensor from = numbered({3, 70001}, dtype, 7), to(Shape{70001, 3}, dtype);
    settle({&from});
    copy(device(), from, to);
    expect_stayed();
    EXPECT_EQ(values_of(to), values_of(from)) << to_string(dtype);
  }
}

TEST_P(Move, AddsInTheOrderOfTheTerms) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (int64_t terms : {1, 2, 3, 8, 9, 20}) {
      std::vector<Tensor> parts;
      std::vector<const Tensor*> pointers;
      for (int64_t k = 0; k < terms; ++k) parts.push_back(numbered({3, 7001}, dtype, k % 3));
      std::vector<double> expected(3 * 7001);
      for (Tensor& part : parts) {
        pointers.push_back(&part);
        settle({&part});
        for (size_t i = 0; i < expected.size(); ++i) {
          expected[i] += part.at(static_cast<int64_t>(i));
        }
      }
      Tensor apart(Shape{3, 7001}, dtype);
      add(device(), pointers, apart);
      expect_stayed();
      // Whole numbers up to 256 are exact in bf16, larger ones to 1 in 256.
      const double tolerance = dtype == DType::bf16 ? 8 : 0;
      EXPECT_THAT(values_of(apart), testing::Pointwise(testing::DoubleNear(tolerance), expected))
          << to_string(dtype) << ", " << terms;
      const std::vector<double> before = values_of(apart);
      downloads_ = device_.downloads;
      add(device(), pointers, parts[0]);
      expect_stayed();
      EXPECT_EQ(values_of(parts[0]), before) << "into the first term";
    }
  }
}

TEST_P(Move, RoundsASumOfBf16Once) {
  Tensor one = numbered({1}, DType::bf16), small(Shape{1}, DType::bf16);
  one.fill(1);
  small.fill(0x1p-9);  // lost when it is added to 1 and rounded; four of them are not
  const std::vector<const Tensor*> terms = {&one, &small, &small, &small, &small};
  Tensor sum(Shape{1}, DType::bf16);
  add(device(), terms, sum);
  EXPECT_EQ(sum.at(0), 1 + 0x1p-7);
}

TEST_P(Move, FillsWithZero) {
  Tensor tensor = numbered({2, 3, 4, 5}, DType::bf16, 1, Format::blocked8);
  settle({&tensor});
  fill_zero(device(), tensor);
  expect_stayed();
  EXPECT_THAT(values_of(tensor), testing::Each(0));
}

TEST_P(Move, RowsOfPartsLieSideBySideInEveryFormat) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (Format format : {Format::contiguous, Format::channels_last, Format::blocked8}) {
      for (int axis = 0; axis < 4; ++axis) {
        Shape a{2, 8, 3, 4}, b = a, joined = a;
        b.set(axis, 2 * a[axis]);
        joined.set(axis, 3 * a[axis]);
        Tensor first = numbered(a, dtype, 3, format), second = numbered(b, dtype, 11, format);
        Tensor whole(joined, dtype, format);
        settle({&first, &second});
        std::byte* to = device().overwrite_bytes(whole);
        const int64_t rows = rows_around(joined, format, axis);
        const auto row = [&](const Tensor& t) { return static_cast<int64_t>(t.bytes()) / rows; };
        for (Tensor* part : {&first, &second}) {
          copy_rows(device(), {rows, row(*part), row(*part), row(whole)},
                    device().read_bytes(*part), to);
          to += row(*part);
        }
        expect_stayed();
        for (int64_t i = 0; i < joined.count(); ++i) {
          const int64_t inner = joined.count(axis + 1), at = i / inner % joined[axis];
          const int64_t outer = i / inner / joined[axis], rest = i % inner;
          const bool in_first = at < a[axis];
          const Tensor& part = in_first ? first : second;
          const int64_t in_part = in_first ? at : at - a[axis];
          ASSERT_EQ(whole.at(i), part.at((outer * part.shape()[axis] + in_part) * inner + rest))
              << to_string(format) << ", axis " << axis << ", element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema
