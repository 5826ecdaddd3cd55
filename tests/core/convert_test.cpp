// Every conversion between element types and formats, against indices computed one by one.
#include "core/convert.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "backend/conversion_math.hpp"
#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "core/simd.hpp"
#include "crema/tensor.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

constexpr Format kFormats[] = {Format::contiguous, Format::channels_last, Format::blocked8,
                               Format::blocked16};
constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                            DType::u8,  DType::i32, DType::i64};

/// Position of (n, c, place) by the definition of the format.
int64_t position(Format format, int64_t channels, int64_t places, int64_t n, int64_t c, int64_t s) {
  if (format == Format::contiguous) return (n * channels + c) * places + s;
  if (format == Format::channels_last) return (n * places + s) * channels + c;
  const int64_t block = format == Format::blocked8 ? 8 : 16;
  const int64_t blocks = (channels + block - 1) / block;
  return ((n * blocks + c / block) * places + s) * block + c % block;
}

/// Every element of the logical tensor has a value of its own as far as u8 and bf16 allow.
double value_of(int64_t index) { return static_cast<double>((index * 7 + index / 251) % 251); }

template <class T>
T element(double value) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

Tensor filled(const Shape& shape, DType dtype, Format format) {
  Tensor tensor(shape, dtype, format);
  const int64_t channels = shape[1], places = shape.count(2);
  dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* data = tensor.change<T>();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      data[position(format, channels, places, i / places / channels, i / places % channels,
                    i % places)] = element<T>(value_of(i));
    }
  });
  return tensor;
}

void expect_filled(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const Tensor expected = filled(shape, tensor.dtype(), tensor.format());
  const auto* actual = static_cast<const uint8_t*>(tensor.read_bytes());
  const auto* wanted = static_cast<const uint8_t*>(expected.read_bytes());
  const uint8_t* const differs = std::mismatch(actual, actual + tensor.bytes(), wanted).first;
  ASSERT_EQ(differs - actual, static_cast<ptrdiff_t>(tensor.bytes()))
      << "the byte at that offset differs in " << shape.str();
}

/// Makes a target full of ones first: padding has to be zeroed, not found zero.
void check_conversion(const Shape& shape, DType from_type, Format from, DType to_type, Format to) {
  SCOPED_TRACE(text(shape.str(), ": ", to_string(from_type), ' ', to_string(from), " to ",
                    to_string(to_type), ' ', to_string(to)));
  Tensor target(shape, to_type, to);
  dispatch_any(to_type, [&](auto zero) {
    auto* bytes = reinterpret_cast<uint8_t*>(target.change<decltype(zero)>());
    std::fill_n(bytes, target.bytes(), uint8_t{0xff});
  });
  target.copy_from(filled(shape, from_type, from));
  expect_filled(target);
}

class Conversion : public testing::TestWithParam<Shape> {};

TEST_P(Conversion, BetweenAllFormats) {
  for (const DType dtype : kTypes) {
    for (const Format from : kFormats) {
      for (const Format to : kFormats) check_conversion(GetParam(), dtype, from, dtype, to);
    }
  }
}

TEST_P(Conversion, BetweenAllFormatsWithoutWideVectors) {
  const SimdLimit limit(SimdLevel::baseline);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Format from : kFormats) {
      for (const Format to : kFormats) {
        check_conversion(GetParam(), dtype, from, dtype, to);
        check_conversion(GetParam(), DType::f32, from, dtype, to);
      }
    }
  }
}

std::vector<Shape> odd_shapes() {
  std::vector<Shape> shapes;
  for (const int64_t channels : {1, 3, 8, 16, 17, 31}) {
    shapes.push_back(Shape{2, channels, 5});
    shapes.push_back(Shape{3, channels, 7, 11});
    shapes.push_back(Shape{1, channels, 3, 5, 9});
    shapes.push_back(Shape{2, channels, 1, 1});
    shapes.push_back(Shape{1, channels, 13, 20});
  }
  shapes.push_back(Shape{2, 0, 3});
  shapes.push_back(Shape{0, 3, 3});
  shapes.push_back(Shape{2, 3, 0});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(OddShapes, Conversion, testing::ValuesIn(odd_shapes()),
                         [](const auto& shape) { return text("s", shape.param.str()); });

TEST(Conversions, BetweenAllTypesInAllFormats) {
  const Shape shape{2, 17, 9, 8};
  for (const DType from_type : kTypes) {
    for (const DType to_type : kTypes) {
      for (const Format from : kFormats) {
        for (const Format to : kFormats) check_conversion(shape, from_type, from, to_type, to);
      }
    }
  }
}

TEST(Conversions, RankBelowThreeConvertsTypes) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{5, 7}}) {
    Tensor tensor(shape);
    float* data = tensor.change<float>();
    for (int64_t i = 0; i < tensor.count(); ++i) data[i] = static_cast<float>(i) + 0.5f;
    const Tensor wide = tensor.to(DType::f64, Format::contiguous);
    for (int64_t i = 0; i < tensor.count(); ++i) EXPECT_EQ(wide.at(i), data[i]);
  }
}

TEST(Conversions, AreTheSameOnAnyNumberOfThreads) {
  const Shape shape{2, 35, 40, 41};  // enough panels for three threads
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    for (const Format from : kFormats) {
      for (const Format to : kFormats) check_conversion(shape, DType::f32, from, DType::f32, to);
    }
  }
  omp_set_num_threads(before);
}

TEST(Conversions, ThereAndBackIsTheSameForFloats) {
  Tensor tensor(Shape{2, 19, 6, 6});
  float* data = tensor.change<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) data[i] = 1.0f / static_cast<float>(i + 1);
  for (const Format format : kFormats) {
    const Tensor back = tensor.to(DType::f64, format).to(DType::f32, Format::contiguous);
    for (int64_t i = 0; i < tensor.count(); ++i) ASSERT_EQ(back.read<float>()[i], data[i]);
  }
}

TEST(Conversions, VectorsRoundAsScalarsDo) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 70000; ++i) values.push_back(std::bit_cast<float>(i * 61357u));
  Tensor tensor(Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.overwrite<float>());
  const Tensor brain = tensor.to(DType::bf16, Format::contiguous);
  const Tensor half = tensor.to(DType::f16, Format::contiguous);
  const Tensor wide = half.to(DType::f32, Format::contiguous);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(brain.read<bfloat16>()[i].bits, bfloat16(values[i]).bits) << values[i];
    ASSERT_EQ(half.read<float16>()[i].bits, float16(values[i]).bits) << values[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(wide.read<float>()[i]),
              std::bit_cast<uint32_t>(static_cast<float>(half.read<float16>()[i])));
  }
}

/// Values that show how each type rounds.
double odd_value(int64_t i) {
  const double values[] = {1.00390625, -3e-8, 70000, 0.1, 1.0 / 3, -65519, 1e300, 5e-324};
  return values[i % 8] * static_cast<double>(1 + i / 8);
}

// The mathematics of the device's kernels, run here.
TEST(DeviceConversion, GivesWhatTheHostGives) {
  constexpr DType kFloats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (const Shape& shape : {Shape{2, 19, 3, 5}, Shape{3, 16, 7}, Shape{1, 1, 4, 4},
                             Shape{2, 32, 1, 1}, Shape{4, 5}, Shape{6}}) {
    Tensor values(shape, DType::f64);
    double* const value = values.overwrite<double>();
    for (int64_t i = 0; i < values.count(); ++i) value[i] = odd_value(i);
    for (const Format from_format : kFormats) {
      for (const Format to_format : kFormats) {
        if (shape.rank() < 3 && (from_format != kFormats[0] || to_format != kFormats[0])) continue;
        for (const DType from_type : kFloats) {
          for (const DType to_type : kFloats) {
            SCOPED_TRACE(text(shape.str(), " ", to_string(Layout{from_type, from_format}), " to ",
                              to_string(Layout{to_type, to_format})));
            const Tensor source = values.to(from_type, from_format);
            const Tensor expected = source.to(to_type, to_format);
            // Also where neither lies on a multiple of 16 bytes.
            for (const size_t shift : {size_t{0}, size_of(from_type), size_t{8}}) {
              std::vector<char> given(source.bytes() + 16), got(expected.bytes() + 16, '\x55');
              std::memcpy(given.data() + shift, source.read_bytes(), source.bytes());
              char* const to = got.data() + (shift == size_of(from_type) ? 0 : shift);
              convert_as_devices_do(shape, from_type, from_format, given.data() + shift, to_type,
                                    to_format, to);
              EXPECT_EQ(std::memcmp(to, expected.read_bytes(), expected.bytes()), 0);
              EXPECT_EQ(to[expected.bytes()], '\x55');
            }
          }
        }
      }
    }
  }
}

TEST(Fill, SetsOrAddsOnEitherSide) {
  FakeDevice device;
  for (const ComputeDevice side : {ComputeDevice(), ComputeDevice(device)}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Tensor filled(Shape{2, 19, 3, 5}, dtype);
      fill(side, filled, 0.75, false);
      fill(side, filled, -2, true);
      for (int64_t i = 0; i < filled.count(); ++i) EXPECT_EQ(filled.at(i), -1.25);
    }
  }
}

TEST(DeviceSum, RoundsOnce) {
  // In bf16, 1 + 1/256 is 1: one after the other, the small ones would be lost.
  const bfloat16 small(1.0F / 256);
  bfloat16 sum(1.0F);
  const void* const terms[] = {&sum, &small, &small, &small};
  FakeDevice().add(DType::bf16, 1, terms, &sum);
  EXPECT_EQ(static_cast<float>(sum), 1.015625F);
}

}  // namespace
}  // namespace crema
