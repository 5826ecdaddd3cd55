#include "backend/cpu/packed_product.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/simd.hpp"
#include "crema/parameter.hpp"
#include "crema/random.hpp"
#include "support/expect_error.hpp"

namespace crema::test {
namespace {

struct Sizes {
  int64_t batch, rows, columns;
};

// Each tile, panel, vector and block of steps, with and without a rest.
const std::vector<Sizes> kSizes = {{1, 1, 1},     {2, 48, 64},   {3, 6, 31},    {4, 47, 33},
                                   {5, 49, 321},  {8, 96, 320},  {9, 61, 1000}, {13, 16, 7},
                                   {33, 100, 77}, {64, 17, 641}, {197, 40, 30}, {0, 5, 7},
                                   {1100, 3, 330}};

std::vector<float> random_floats(int64_t count, uint64_t stream) {
  Random random(7, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

double activated(double x, const ProductEnd& end) {
  switch (end.activation) {
    case ProductEnd::Activation::none:
      return x;
    case ProductEnd::Activation::relu:
      return x > 0 ? x : static_cast<double>(end.slope) * x;
    case ProductEnd::Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ProductEnd::Activation::gelu_by_tanh:
      return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }
  return x;
}

/// Vectors of exactly the sizes, so that a sanitizer sees what reaches beyond.
struct Problem {
  explicit Problem(const Sizes& s)
      : sizes(s),
        matrix(random_floats(s.rows * s.columns, 1)),
        of_rows(random_floats(s.batch * s.rows, 2)),
        of_columns(random_floats(s.batch * s.columns, 3)),
        row_bias(random_floats(s.rows, 4)),
        column_bias(random_floats(s.columns, 5)) {}

  /// The product and its end, in f64.
  std::vector<double> expected(bool transposed, const ProductEnd& end) const {
    const auto& [batch, rows, columns] = sizes;
    const int64_t steps = transposed ? columns : rows, width = transposed ? rows : columns;
    const std::vector<float>& a = transposed ? of_columns : of_rows;
    std::vector<double> out;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t j = 0; j < width; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < steps; ++k) {
          const int64_t at = transposed ? j * columns + k : k * columns + j;
          sum += double{a[static_cast<size_t>(n * steps + k)]} * matrix[static_cast<size_t>(at)];
        }
        if (end.bias != nullptr) sum += double{end.bias[j]};
        sum = activated(sum, end);
        if (end.summand != nullptr) sum += double{end.summand[n * width + j]};
        out.push_back(sum);
      }
    }
    return out;
  }

  Sizes sizes;
  std::vector<float> matrix, of_rows, of_columns, row_bias, column_bias;
};

std::vector<float> run(const Problem& problem, bool transposed, const ProductEnd& end,
                       ParameterStorage* storage = nullptr) {
  const auto& [batch, rows, columns] = problem.sizes;
  PackedProduct product(batch, rows, columns);
  const int64_t width = transposed ? rows : columns;
  std::vector<float> out(static_cast<size_t>(batch * width),
                         std::numeric_limits<float>::quiet_NaN());
  const PackedMatrix matrix{problem.matrix.data(), storage};
  if (transposed) {
    product.times_transposed(problem.of_columns.data(), matrix, out.data(), end);
  } else {
    product.times(problem.of_rows.data(), matrix, out.data(), end);
  }
  return out;
}

void expect_right(const Problem& problem, bool transposed, const ProductEnd& end) {
  const std::vector<double> wanted = problem.expected(transposed, end);
  const std::vector<float> out = run(problem, transposed, end);
  const int64_t steps = transposed ? problem.sizes.columns : problem.sizes.rows;
  ASSERT_EQ(out.size(), wanted.size());
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_NEAR(out[i], wanted[i], 1e-6 * static_cast<double>(steps + 2)) << "element " << i;
}

class PackedProductTest : public testing::TestWithParam<SimdLevel> {
 protected:
  PackedProductTest() : limit_(GetParam()) {
    if (simd_level() != GetParam()) skip_ = true;
  }
  void SetUp() override {
    if (skip_)
      GTEST_SKIP() << "needs " << to_string(GetParam()) << ": run on a processor that has it";
  }

 private:
  SimdLimit limit_;
  bool skip_ = false;
};

TEST_P(PackedProductTest, Values) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(text(sizes.batch, " rows by ", sizes.rows, "x", sizes.columns));
    const Problem problem(sizes);
    for (const bool transposed : {true, false}) expect_right(problem, transposed, {});
  }
}

TEST_P(PackedProductTest, Ends) {
  using Activation = ProductEnd::Activation;
  for (const Sizes& sizes : {Sizes{13, 61, 650}, Sizes{16, 48, 48}, Sizes{3, 5, 2}}) {
    SCOPED_TRACE(text(sizes.batch, " rows by ", sizes.rows, "x", sizes.columns));
    const Problem problem(sizes);
    for (const bool transposed : {true, false}) {
      const std::vector<float>& bias = transposed ? problem.row_bias : problem.column_bias;
      const std::vector<float>& summand = transposed ? problem.of_rows : problem.of_columns;
      for (const Activation activation :
           {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_by_tanh}) {
        expect_right(problem, transposed, {bias.data(), activation, 0.25F, nullptr});
        expect_right(problem, transposed, {nullptr, activation, 0, summand.data()});
      }
      expect_right(problem, transposed, {bias.data(), Activation::none, 0, summand.data()});
    }
  }
}

// GELU of large values: 0 or the value, never NaN; NaN stays.
TEST_P(PackedProductTest, GELUAtItsEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto activation :
       {ProductEnd::Activation::gelu, ProductEnd::Activation::gelu_by_tanh}) {
    std::vector<float> x = {-1e30F, -100, -20, -12, 12, 20, 100, 1e30F, infinity, NAN};
    finish_product(2, 5, x.data(), {.activation = activation});
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(x[i], 0) << i;
    EXPECT_NEAR(x[3], 0, 1e-20);
    EXPECT_EQ(x[4], 12);
    EXPECT_EQ(x[7], 1e30F);
    EXPECT_EQ(x[8], infinity);
    EXPECT_TRUE(std::isnan(x[9]));
  }
}

TEST_P(PackedProductTest, DoesNotDependOnThreads) {
  const int before = omp_get_max_threads();
  const Problem problem({67, 301, 517});
  const ProductEnd end{problem.row_bias.data(), ProductEnd::Activation::gelu, 0, nullptr};
  omp_set_num_threads(1);
  const std::vector<float> first = run(problem, true, end);
  for (const int threads : {2, 3, 4, 7}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(run(problem, true, end), first) << threads << " threads";
  }
  omp_set_num_threads(before);
}

// The packed form is made once for each version of the values, and has the same results.
TEST_P(PackedProductTest, KeepsThePackedMatrix) {
  const Problem problem({13, 61, 650});
  Tensor values(Shape{61, 650});
  values.fill(0);
  ParameterStorage storage(values, Tensor(Shape{0}));
  PackedProduct product(13, 61, 650);
  std::vector<float> out(13 * 61, NAN);
  const auto multiply = [&] {
    product.times_transposed(problem.of_columns.data(), {values.read<float>(), &storage},
                             out.data(), {});
  };
  multiply();
  for (const float each : out) ASSERT_EQ(each, 0);
  values.fill(1);
  multiply();
  for (size_t n = 0; n < 13; ++n) {
    double sum = 0;
    for (size_t k = 0; k < 650; ++k) sum += double{problem.of_columns[n * 650 + k]};
    EXPECT_NEAR(out[n * 61 + 60], sum, 1e-3);
  }
  EXPECT_GE(product.packed_bytes(true), 61u * 650 * sizeof(float));
}

TEST(PackedProduct, Errors) {
  expect_error([] { PackedProduct(3, 0, 4); }, {"0 rows", "4 columns"});
  expect_error([] { PackedProduct(3, 4, 0); }, {"4 rows", "0 columns"});
}

INSTANTIATE_TEST_SUITE_P(Levels, PackedProductTest,
                         testing::Values(SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2,
                                         SimdLevel::avx512),
                         [](const auto& level) { return std::string(to_string(level.param)); });

}  // namespace
}  // namespace crema::test
