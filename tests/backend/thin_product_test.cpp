#include "backend/cpu/thin_product.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/simd.hpp"
#include "crema/random.hpp"
#include "support/expect_error.hpp"

namespace crema::test {
namespace {

struct Sizes {
  int64_t batch, rows, columns;
};

// Each tile, panel, chunk and line of a cache, with and without a rest.
const std::vector<Sizes> kSizes = {
    {2, 1, 1},     {2, 12, 1024}, {3, 6, 31},    {5, 7, 33},     {8, 13, 1025}, {9, 61, 100},
    {16, 24, 64},  {17, 29, 47},  {25, 11, 130}, {32, 48, 2048}, {33, 35, 77},  {40, 6, 1030},
    {64, 18, 256}, {65, 97, 65},  {12, 23, 80},  {48, 15, 2064}, {1, 5, 7},     {0, 5, 7},
    {100, 3, 700}, {1, 66, 90},   {4, 65, 1041}, {5, 1, 1}};

std::vector<float> random_floats(int64_t count, uint64_t stream) {
  Random random(7, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

/// Vectors of exactly the sizes, so that a sanitizer sees what reaches beyond.
struct Problem {
  explicit Problem(const Sizes& s)
      : sizes(s),
        matrix(random_floats(s.rows * s.columns, 1)),
        of_rows(random_floats(s.batch * s.rows, 2)),
        of_columns(random_floats(s.batch * s.columns, 3)) {}

  float m(int64_t r, int64_t c) const { return matrix[static_cast<size_t>(r * sizes.columns + c)]; }
  float a(int64_t n, int64_t r) const { return of_rows[static_cast<size_t>(n * sizes.rows + r)]; }
  float b(int64_t n, int64_t c) const {
    return of_columns[static_cast<size_t>(n * sizes.columns + c)];
  }

  Sizes sizes;
  std::vector<float> matrix, of_rows, of_columns;
};

struct Results {
  std::vector<float> dots, sums, outer, added;
};

bool operator==(const Results& x, const Results& y) {
  return x.dots == y.dots && x.sums == y.sums && x.outer == y.outer && x.added == y.added;
}

Results run(const Problem& problem, int threads) {
  const auto& [batch, rows, columns] = problem.sizes;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Results results{std::vector<float>(problem.of_rows.size(), nan),
                  std::vector<float>(problem.of_columns.size(), nan),
                  std::vector<float>(problem.matrix.size(), nan), problem.matrix};
  ThinProduct product(batch, rows, columns, threads);
  product.times_transposed(problem.of_columns.data(), problem.matrix.data(), results.dots.data());
  product.times(problem.of_rows.data(), problem.matrix.data(), results.sums.data());
  product.outer(problem.of_rows.data(), problem.of_columns.data(), 0, results.outer.data());
  product.outer(problem.of_rows.data(), problem.of_columns.data(), 0.5F, results.added.data());
  return results;
}

void expect_near(float actual, double expected, int64_t terms, const char* what) {
  ASSERT_NEAR(actual, expected, 1e-6 * static_cast<double>(terms + 1)) << what;
}

void expect_right(const Problem& problem, const Results& results) {
  const auto& [batch, rows, columns] = problem.sizes;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += double{problem.b(n, c)} * problem.m(r, c);
      expect_near(results.dots[static_cast<size_t>(n * rows + r)], sum, columns, "dots");
    }
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += double{problem.a(n, r)} * problem.m(r, c);
      expect_near(results.sums[static_cast<size_t>(n * columns + c)], sum, rows, "sums");
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < batch; ++n) sum += double{problem.a(n, r)} * problem.b(n, c);
      const auto i = static_cast<size_t>(r * columns + c);
      expect_near(results.outer[i], sum, batch, "outer");
      expect_near(results.added[i], sum + 0.5 * problem.m(r, c), batch, "added");
    }
  }
}

class ThinProductTest : public testing::TestWithParam<SimdLevel> {
 protected:
  ThinProductTest() : limit_(GetParam()) {
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

TEST_P(ThinProductTest, Values) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(testing::Message()
                 << sizes.batch << " x " << sizes.rows << " x " << sizes.columns);
    const Problem problem(sizes);
    expect_right(problem, run(problem, 2));
    if (HasFatalFailure()) return;
  }
}

// The same bits, also where fewer or more threads run than were announced.
TEST_P(ThinProductTest, DoesNotDependOnThreads) {
  const int before = omp_get_max_threads();
  for (const int64_t batch : {4, 19}) {
    SCOPED_TRACE(batch);
    const Problem problem({batch, 301, 2111});
    omp_set_num_threads(1);
    const Results one = run(problem, 1);
    for (int threads : {2, 3, 5, 7}) {
      omp_set_num_threads(threads);
      EXPECT_TRUE(run(problem, threads) == one) << threads << " threads";
      EXPECT_TRUE(run(problem, 1) == one) << threads << " threads, 1 announced";
      EXPECT_TRUE(run(problem, 4) == one) << threads << " threads, 4 announced";
    }
  }
  omp_set_num_threads(before);
}

// What is not a number stays where it belongs: rows and columns that fill tiles are nobody's.
TEST_P(ThinProductTest, KeepsInfinitiesApart) {
  for (const int64_t batch : {3, 5}) {
    SCOPED_TRACE(batch);
    Problem problem({batch, 8, 37});
    problem.matrix[static_cast<size_t>(7 * 37 + 36)] = std::numeric_limits<float>::infinity();
    const Results results = run(problem, 2);
    for (size_t i = 0; i < results.dots.size(); ++i) {
      EXPECT_EQ(std::isfinite(results.dots[i]), i % 8 != 7) << i;
    }
    for (size_t i = 0; i < results.sums.size(); ++i) {
      EXPECT_EQ(std::isfinite(results.sums[i]), i % 37 != 36) << i;
    }
  }
}

TEST(ThinProduct, NeedsColumns) {
  expect_error([] { ThinProduct(2, 5, 0, 1); }, {"5 rows", "0 columns"});
}

INSTANTIATE_TEST_SUITE_P(Levels, ThinProductTest,
                         testing::Values(SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2,
                                         SimdLevel::avx512),
                         [](const auto& level) { return std::string(to_string(level.param)); });

}  // namespace
}  // namespace crema::test
