#include "crema/filler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <string>

#include "google/protobuf/text_format.h"
#include "proto/common.pb.h"
#include "support/expect_error.hpp"

namespace crema {
namespace {

Filler parsed(const std::string& text) {
  FillerParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return Filler(param);
}

Tensor filled(const std::string& text, const Shape& shape, DType dtype = DType::f32,
              uint64_t seed = 1, uint64_t stream = 2) {
  Tensor tensor(shape, dtype);
  parsed(text).fill(tensor, seed, stream);
  return tensor;
}

struct Moments {
  double mean = 0, variance = 0, least = 1e30, greatest = -1e30, zeros = 0;
};

Moments moments(const Tensor& tensor) {
  Moments result;
  const auto count = static_cast<double>(tensor.count());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double x = tensor.read<float>()[i];
    result.mean += x / count;
    result.variance += x * x / count;
    result.least = std::min(result.least, x);
    result.greatest = std::max(result.greatest, x);
    result.zeros += x == 0;
  }
  result.variance -= result.mean * result.mean;
  return result;
}

// Bounds of five standard errors of the mean, and of the variance where its own variance is at most
// twice the square of the variance.
void expect_moments(const Tensor& tensor, double mean, double variance) {
  const Moments actual = moments(tensor);
  const auto count = static_cast<double>(tensor.count());
  EXPECT_NEAR(actual.mean, mean, 5 * std::sqrt(variance / count));
  EXPECT_NEAR(actual.variance, variance, 5 * variance * std::sqrt(2 / count));
}

TEST(Filler, DefaultIsZero) {
  Tensor tensor(Shape{3});
  tensor.fill(4);
  Filler().fill(tensor, 1, 1);
  EXPECT_THAT(tensor.values<float>(), testing::Each(0));
  EXPECT_EQ(parsed("").type, Filler::Type::constant);
}

TEST(Filler, Constant) {
  EXPECT_THAT(filled("value: 2.5", Shape{2, 3}).values<float>(), testing::Each(2.5f));
  Tensor tensor(Shape{2}, DType::f64);
  Filler::constant(0.1).fill(tensor, 1, 1);
  EXPECT_THAT(tensor.values<double>(), testing::Each(0.1));
}

TEST(Filler, Uniform) {
  const Tensor tensor = filled("type: 'uniform' min: -1 max: 3", Shape{1000, 300});
  expect_moments(tensor, 1, 16 / 12.0);
  EXPECT_GE(moments(tensor).least, -1);
  EXPECT_LE(moments(tensor).greatest, 3);
  EXPECT_LT(moments(tensor).least, -0.999);
  EXPECT_GT(moments(tensor).greatest, 2.999);
}

TEST(Filler, Gaussian) {
  expect_moments(filled("type: 'gaussian' mean: 0.5 std: 0.1", Shape{1000, 300}), 0.5, 0.01);
}

TEST(Filler, SparseGaussianKeepsSomeInputsOfEachOutput) {
  // As published: probability 15 / 300 outputs.
  const Tensor tensor = filled("type: 'gaussian' std: 1 sparse: 15", Shape{300, 1000});
  const double kept = 300000 - moments(tensor).zeros;
  EXPECT_NEAR(kept, 15000, 5 * std::sqrt(300000 * 0.05 * 0.95));
  double squares = 0;
  for (const float x : tensor.values<float>()) squares += static_cast<double>(x) * x;
  EXPECT_NEAR(squares / kept, 1, 5 * std::sqrt(2 / kept));
}

TEST(Filler, SparseZeroKeepsNothingAndAllKeepsAll) {
  EXPECT_EQ(moments(filled("type: 'gaussian' sparse: 0", Shape{10, 100})).zeros, 1000);
  EXPECT_EQ(moments(filled("type: 'gaussian' sparse: 10", Shape{10, 100})).zeros, 0);
  expect_error(
      [] {
        filled("type: 'gaussian' sparse: 11", Shape{10, 100});
      },
      {"sparse 11", "10 outputs", "10x100"});
}

TEST(Filler, XavierBoundsFollowTheVarianceNorm) {
  const Shape shape{40, 30, 10, 10};  // fan_in 3000, fan_out 4000
  const std::pair<const char*, double> norms[] = {
      {"", 3000}, {"FAN_IN", 3000}, {"FAN_OUT", 4000}, {"AVERAGE", 3500}};
  for (const auto& [name, n] : norms) {
    SCOPED_TRACE(name);
    std::string text = "type: 'xavier'";
    if (*name != '\0') text += std::string(" variance_norm: ") + name;
    const Tensor tensor = filled(text, shape);
    expect_moments(tensor, 0, 1 / n);
    const double bound = std::sqrt(3 / n);
    EXPECT_LE(moments(tensor).greatest, bound);
    EXPECT_GE(moments(tensor).least, -bound);
    EXPECT_GT(moments(tensor).greatest, 0.999 * bound);
  }
}

TEST(Filler, MsraVarianceFollowsTheVarianceNorm) {
  const Shape shape{40, 30, 10, 10};
  expect_moments(filled("type: 'msra'", shape), 0, 2 / 3000.0);
  expect_moments(filled("type: 'msra' variance_norm: FAN_OUT", shape), 0, 2 / 4000.0);
  expect_moments(filled("type: 'msra' variance_norm: AVERAGE", shape), 0, 2 / 3500.0);
}

TEST(Filler, FansOfVectorsAndMatrices) {
  // A vector (O): fan_in 1, fan_out O. A matrix (O, I): fan_in I, fan_out O.
  EXPECT_LE(moments(filled("type: 'xavier'", Shape{3000})).greatest, std::sqrt(3));
  EXPECT_GT(moments(filled("type: 'xavier'", Shape{3000})).greatest, 0.98 * std::sqrt(3));
  expect_moments(filled("type: 'msra'", Shape{500, 200}), 0, 2 / 200.0);
  expect_moments(filled("type: 'msra' variance_norm: FAN_OUT", Shape{500, 200}), 0, 2 / 500.0);
}

TEST(Filler, PositiveUnitballRowsSumToOne) {
  const Tensor tensor = filled("type: 'positive_unitball'", Shape{50, 7, 3});
  const float* values = tensor.read<float>();
  for (int row = 0; row < 50; ++row) {
    double sum = 0;
    for (int i = 0; i < 21; ++i) {
      EXPECT_GE(values[row * 21 + i], 0);
      sum += values[row * 21 + i];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Filler, BilinearIsAnInterpolationKernel) {
  const Tensor even = filled("type: 'bilinear'", Shape{2, 1, 4, 4});
  const double even_weights[] = {0.25, 0.75, 0.75, 0.25};
  const Tensor odd = filled("type: 'bilinear'", Shape{1, 2, 5, 5});
  const double odd_weights[] = {1 / 3.0, 2 / 3.0, 1, 2 / 3.0, 1 / 3.0};
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(even.at(i), even_weights[i % 4] * even_weights[i / 4 % 4], 1e-7) << i;
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(odd.at(i), odd_weights[i % 5] * odd_weights[i / 5 % 5], 1e-7) << i;
  }
}

TEST(Filler, BilinearNeedsSquareKernelsOfRankFour) {
  expect_error([] { filled("type: 'bilinear'", Shape{1, 1, 4, 3}); }, {"square", "1x1x4x3"});
  expect_error([] { filled("type: 'bilinear'", Shape{4, 4}); }, {"4 axes", "4x4"});
}

TEST(Filler, ScaleMultipliesAllValues) {
  const std::string types[] = {"constant", "uniform", "gaussian", "xavier", "msra"};
  for (const std::string& type : types) {
    const std::string text = "type: '" + type + "' value: 3 mean: 1";
    const Tensor plain = filled(text, Shape{3, 5});
    const Tensor scaled = filled(text + " scale: 2", Shape{3, 5});
    for (int i = 0; i < 15; ++i) EXPECT_FLOAT_EQ(scaled.at(i), 2 * plain.at(i)) << type;
  }
}

TEST(Filler, UnknownTypesAreErrors) {
  expect_error([] { parsed("type: 'gausian'"); }, {"'gausian'", "did you mean 'gaussian'"});
  expect_error([] { parsed("type: 'orthogonal'"); }, {"'orthogonal'", "xavier", "msra"});
}

TEST(Filler, BadParametersAreErrors) {
  expect_error([] { parsed("type: 'xavier' sparse: 3"); }, {"xavier", "sparse"});
  expect_error([] { parsed("type: 'gaussian' sparse: -2"); }, {"-2"});
  expect_error([] { parsed("type: 'gaussian' std: -1"); }, {"std -1"});
  expect_error([] { parsed("type: 'uniform' min: 2 max: 1"); }, {"min 2", "max 1"});
}

TEST(Filler, FillsOnlyContiguousFloats) {
  Tensor blocked(Shape{1, 3, 2}, DType::f32, Format::blocked8);
  expect_error([&] { Filler().fill(blocked, 1, 1); }, {"contiguous", "blocked8"});
  Tensor integers(Shape{3}, DType::i32);
  expect_error([&] { parsed("type: 'uniform'").fill(integers, 1, 1); }, {"i32"});
}

TEST(Filler, EmptyTensorsAreLeftAlone) {
  for (const char* type :
       {"constant", "uniform", "gaussian", "xavier", "msra", "positive_unitball"}) {
    EXPECT_EQ(filled("type: '" + std::string(type) + "'", Shape{0, 3}).count(), 0) << type;
  }
}

class Reproducible : public testing::TestWithParam<const char*> {};

TEST_P(Reproducible, OnAnyNumberOfThreads) {
  const std::string prototxt = text("type: '", GetParam(), "'");
  const Shape shape{64, 10, 11, 11};
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const Tensor one = filled(prototxt, shape);
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const Tensor many = filled(prototxt, shape);
    for (int64_t i = 0; i < one.count(); ++i) {
      ASSERT_EQ(one.read<float>()[i], many.read<float>()[i]) << i;
    }
  }
  omp_set_num_threads(before);
}

TEST_P(Reproducible, DoublesRoundToTheFloats) {
  const std::string prototxt = text("type: '", GetParam(), "'");
  const Tensor floats = filled(prototxt, Shape{50, 121});
  const Tensor doubles = filled(prototxt, Shape{50, 121}, DType::f64);
  for (int64_t i = 0; i < floats.count(); ++i) {
    ASSERT_FLOAT_EQ(floats.read<float>()[i], static_cast<float>(doubles.read<double>()[i]));
  }
}

TEST_P(Reproducible, DiffersBySeedAndStream) {
  const std::string prototxt = text("type: '", GetParam(), "'");
  const Tensor tensor = filled(prototxt, Shape{10, 10});
  EXPECT_EQ(tensor.at(5), filled(prototxt, Shape{10, 10}).at(5));
  EXPECT_NE(tensor.at(5), filled(prototxt, Shape{10, 10}, DType::f32, 2, 2).at(5));
  EXPECT_NE(tensor.at(5), filled(prototxt, Shape{10, 10}, DType::f32, 1, 3).at(5));
}

INSTANTIATE_TEST_SUITE_P(Types, Reproducible,
                         testing::Values("uniform", "gaussian", "xavier", "msra",
                                         "positive_unitball"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace crema
