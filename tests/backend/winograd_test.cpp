// Winograd convolution against the direct sum, in double.
#include "backend/cpu/winograd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"

namespace crema {
namespace {

struct Case {
  WinogradProblem problem;
  const char* name;
};

std::vector<float> random_values(int64_t count, uint64_t stream) {
  Random random(7, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

Tensor blocked(const std::vector<float>& values, const Shape& shape) {
  Tensor plain(shape);
  std::copy(values.begin(), values.end(), plain.overwrite<float>());
  return plain.to(DType::f32, Winograd::block() == 16 ? Format::blocked16 : Format::blocked8);
}

/// Output, input gradient and weight gradient by the definition.
struct Direct {
  std::vector<double> y, dx, dw, db;

  Direct(const WinogradProblem& p, const std::vector<float>& x, const std::vector<float>& w,
         const std::vector<float>& bias, const std::vector<float>& dy)
      : y(dy.size()), dx(x.size()), dw(w.size()), db(bias.size()) {
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t i = 0; i < p.out_h(); ++i) {
          for (int64_t j = 0; j < p.out_w(); ++j) one(p, x, w, bias, dy, n, k, i, j);
        }
      }
    }
  }

 private:
  void one(const WinogradProblem& p, const std::vector<float>& x, const std::vector<float>& w,
           const std::vector<float>& bias, const std::vector<float>& dy, int64_t n, int64_t k,
           int64_t i, int64_t j) {
    const auto at = static_cast<size_t>(((n * p.k + k) * p.out_h() + i) * p.out_w() + j);
    double sum = bias[static_cast<size_t>(k)];
    const int64_t inputs = p.c / p.groups, first = k / (p.k / p.groups) * inputs;
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t r = std::max<int64_t>(0, p.pad_h - i); r < p.taps && i + r - p.pad_h < p.h;
           ++r) {
        for (int64_t s = std::max<int64_t>(0, p.pad_w - j); s < p.taps && j + s - p.pad_w < p.w;
             ++s) {
          const auto from = static_cast<size_t>(
              ((n * p.c + first + c) * p.h + i + r - p.pad_h) * p.w + j + s - p.pad_w);
          const auto by = static_cast<size_t>(((k * inputs + c) * p.taps + r) * p.taps + s);
          sum += static_cast<double>(x[from]) * static_cast<double>(w[by]);
          dx[from] += static_cast<double>(dy[at]) * static_cast<double>(w[by]);
          dw[by] += static_cast<double>(dy[at]) * static_cast<double>(x[from]);
        }
      }
    }
    y[at] = sum;
    db[static_cast<size_t>(k)] += dy[at];
  }
};

/// Rounding of F(4x4, 3x3) and F(2x2, 5x5) in f32, relative to the largest value, for sums over at
/// most 64 channels. It grows as the root of their number.
constexpr double kTolerance = 4e-6;

template <class Values>
void expect_near(const char* what, const Values& actual, const std::vector<double>& expected,
                 double tolerance = kTolerance) {
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance * largest)
        << what << " " << i;
  }
}

class WinogradTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (simd_level() < SimdLevel::avx2)
      GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  }
  static void equals_the_direct_sum(const WinogradProblem& p);
};

TEST_P(WinogradTest, EqualsTheDirectSum) {
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(text(threads, " threads"));
    const ThreadScope scope(threads);
    equals_the_direct_sum(GetParam().problem);
  }
}

void WinogradTest::equals_the_direct_sum(const WinogradProblem& p) {
  const Shape x_shape{p.n, p.c, p.h, p.w}, y_shape{p.n, p.k, p.out_h(), p.out_w()};
  const auto x = random_values(x_shape.count(), 1),
             w = random_values(p.k * (p.c / p.groups) * p.taps * p.taps, 2);
  const auto bias = random_values(p.k, 3), dy = random_values(y_shape.count(), 4);
  const Direct direct(p, x, w, bias, dy);
  const Tensor xb = blocked(x, x_shape), dyb = blocked(dy, y_shape);

  Winograd winograd(p);
  Tensor y(y_shape, DType::f32, dyb.format()), dx(x_shape, DType::f32, xb.format());
  Tensor kept(Shape{p.k, p.c / p.groups, p.taps, p.taps});
  std::copy(w.begin(), w.end(), kept.overwrite<float>());
  kept.seal();
  ParameterStorage storage(kept, Tensor());
  const ConvolutionWeights weights{kept.read<float>(), &storage};
  winograd.forward(xb.read<float>(), weights, bias.data(), false, false, 0, y.overwrite<float>());
  const double tolerance = kTolerance * std::sqrt(std::max(1.0, static_cast<double>(p.c) / 64));
  expect_near("y", y.contiguous().values<float>(), direct.y, tolerance);

  // Transformed weights are used again, and the ReLU acts after the bias.
  const std::vector<float> zeros(w.size());
  const ConvolutionWeights unread{zeros.data(), &storage};
  winograd.forward(xb.read<float>(), unread, bias.data(), false, true, 0.5F, y.overwrite<float>());
  std::vector<double> relu = direct.y;
  for (double& value : relu) value = value > 0 ? value : 0.5 * value;
  expect_near("relu", y.contiguous().values<float>(), relu, tolerance);

  // What y holds is added before the ReLU.
  winograd.forward(xb.read<float>(), unread, bias.data(), true, false, 0, y.change<float>());
  std::vector<double> added = direct.y;
  for (size_t i = 0; i < added.size(); ++i) added[i] += relu[i];
  expect_near("added", y.contiguous().values<float>(), added, tolerance);

  for (ParameterStorage* const keeps : {static_cast<ParameterStorage*>(nullptr), &storage}) {
    winograd.backward_data(dyb.read<float>(), {w.data(), keeps}, dx.overwrite<float>());
    expect_near("dx", dx.contiguous().values<float>(), direct.dx);
  }

  // The values that the storage has now.
  kept.fill(0);
  winograd.forward(xb.read<float>(), weights, nullptr, false, false, 0, y.overwrite<float>());
  const Tensor nothing = y.contiguous();
  for (const float value : nothing.values<float>()) ASSERT_EQ(value, 0);

  std::vector<float> dw(w.size(), NAN), db(bias.size(), NAN);
  winograd.backward_weights(xb.read<float>(), dyb.read<float>(), false, dw.data(), false,
                            db.data());
  expect_near("dw", dw, direct.dw);
  expect_near("db", db, direct.db);
  winograd.backward_weights(xb.read<float>(), dyb.read<float>(), true, dw.data(), true, db.data());
  const auto twice = [](std::vector<double> values) {
    for (double& value : values) value *= 2;
    return values;
  };
  expect_near("dw added", dw, twice(direct.dw));
  expect_near("db added", db, twice(direct.db));
}

TEST_P(WinogradTest, KeepsThePaddingOfBlocksZero) {
  const WinogradProblem p = GetParam().problem;
  const Shape y_shape{p.n, p.k, p.out_h(), p.out_w()};
  const auto w = random_values(p.k * (p.c / p.groups) * p.taps * p.taps, 2),
             bias = random_values(p.k, 3);
  const Tensor x = blocked(random_values(p.n * p.c * p.h * p.w, 1), {p.n, p.c, p.h, p.w});
  Tensor y(y_shape, DType::f32, x.format());
  Winograd(p).forward(x.read<float>(), {w.data()}, bias.data(), false, false, 0,
                      y.overwrite<float>());
  const int64_t b = block_of(y.format()), plane = p.out_h() * p.out_w();
  const auto values = y.values<float>();
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t channel = i / (plane * b) % ((p.k + b - 1) / b) * b + i % b;
    if (channel >= p.k) {
      ASSERT_EQ(values[static_cast<size_t>(i)], 0.0F) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, WinogradTest,
    ::testing::Values(Case{{2, 5, 9, 7, 11, 1, 1}, "odd"},
                      Case{{1, 16, 12, 13, 32, 0, 0}, "no_pad"},
                      Case{{3, 33, 6, 6, 70, 2, 2}, "pad2"},
                      Case{{2, 8, 3, 30, 8, 0, 1}, "one_row"},
                      Case{{1, 1, 4, 4, 1, 1, 1}, "one_channel"},
                      // Tiles in a core's own cache, and with channels that
                      // fill no block.
                      Case{{2, 64, 112, 112, 48, 1, 1}, "own_tiles"},
                      Case{{3, 21, 40, 39, 37, 1, 1}, "own_tiles_odd"},
                      // Too many channels for that; several batches of tiles.
                      Case{{1, 1000, 42, 42, 16, 1, 1}, "several_batches"},
                      Case{{2, 5, 9, 8, 11, 2, 2, 5}, "taps5_odd"},
                      Case{{1, 16, 12, 13, 32, 0, 0, 5}, "taps5_no_pad"},
                      Case{{3, 33, 6, 6, 70, 4, 3, 5}, "taps5_pad4"},
                      Case{{2, 8, 5, 30, 8, 0, 1, 5}, "taps5_one_row"},
                      Case{{1, 1, 2, 3, 1, 2, 2, 5}, "taps5_small"},
                      Case{{2, 48, 56, 57, 33, 2, 2, 5}, "taps5_own_tiles"},
                      // Several panels of outputs.
                      Case{{2, 18, 57, 56, 105, 1, 1}, "panels"},
                      Case{{2, 16, 56, 56, 64, 1, 1}, "panels_of_two"},
                      Case{{2, 8, 56, 56, 53, 1, 1}, "panels_of_four"},
                      Case{{2, 18, 29, 28, 105, 2, 2, 5}, "taps5_panels"},
                      Case{{1, 1000, 22, 22, 16, 2, 2, 5}, "taps5_batches"},
                      Case{{2, 32, 13, 12, 96, 1, 1, 3, 2}, "two_groups"},
                      Case{{2, 144, 40, 39, 48, 1, 1, 3, 3}, "groups_of_own_tiles"},
                      Case{{1, 1024, 30, 30, 32, 1, 1, 3, 2}, "groups_in_batches"},
                      Case{{2, 32, 11, 12, 96, 2, 2, 5, 2}, "taps5_two_groups"},
                      Case{{2, 64, 29, 28, 224, 1, 1, 3, 2}, "groups_of_panels"}),
    [](const auto& test) { return test.param.name; });

// Nets of other groups may share the storage of weights that are equally many.
TEST(Winograd, KeepsTransformedWeightsOfGroupsApart) {
  if (simd_level() < SimdLevel::avx2) GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  const int64_t b = Winograd::block();
  const WinogradProblem one{1, 2 * b, 8, 8, 2 * b, 1, 1, 3, 1},
      two{1, 2 * b, 8, 8, 2 * b, 1, 1, 3, 2};
  const auto x = random_values(one.c * 64, 1), w = random_values(one.k * one.c * 9, 2);
  const Tensor xb = blocked(x, {1, one.c, 8, 8});
  Tensor kept(Shape{one.k, one.c, 3, 3});
  std::copy(w.begin(), w.end(), kept.overwrite<float>());
  kept.seal();
  ParameterStorage storage(kept, Tensor());
  for (const WinogradProblem& p : {one, two}) {
    const std::vector<float> none(static_cast<size_t>(p.k)), dy(static_cast<size_t>(p.k * 64));
    const Direct direct(p, x, w, none, dy);
    Tensor y(Shape{1, p.k, 8, 8}, DType::f32, xb.format());
    Winograd(p).forward(xb.read<float>(), {kept.read<float>(), &storage}, nullptr, false, false, 0,
                        y.overwrite<float>());
    expect_near("y", y.contiguous().values<float>(), direct.y);
  }
}

TEST(Winograd, RefusesWhatItCannotDo) {
  if (simd_level() < SimdLevel::avx2) GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  EXPECT_THROW(Winograd({1, 8, 2, 8, 8, 0, 0}), Error);
  EXPECT_THROW(Winograd({1, 8, 8, 8, 8, 3, 0}), Error);
  EXPECT_THROW(Winograd({0, 8, 8, 8, 8, 1, 1}), Error);
  EXPECT_THROW(Winograd({1, 8, 8, 8, 8, 5, 0, 5}), Error);
  EXPECT_THROW(Winograd({1, 8, 4, 8, 8, 0, 0, 5}), Error);
  EXPECT_THROW(Winograd({1, 8, 8, 8, 8, 0, 0, 4}), Error);
  EXPECT_THROW(Winograd({1, 24, 8, 8, 64, 1, 1, 3, 2}), Error);
  EXPECT_THROW(Winograd({1, 64, 8, 8, 24, 1, 1, 3, 2}), Error);
  EXPECT_THROW(Winograd({1, 64, 8, 8, 64, 1, 1, 3, 0}), Error);
}

}  // namespace
}  // namespace crema
