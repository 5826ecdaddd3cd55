#include "backend/cpu/blas.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/gemm_library.hpp"
#include "core/device.hpp"
#include "crema/random.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

template <class T>
std::vector<T> numbers(int64_t count, uint64_t stream) {
  Random random(1, stream);
  std::vector<T> result(static_cast<size_t>(count));
  for (T& value : result) value = static_cast<T>(random.uniform(-1.0, 1.0));
  return result;
}

struct Problem {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t gap = 0;  // elements between rows
  double alpha = 1, beta = 0;

  int64_t rows_a() const { return transpose_a ? k : m; }
  int64_t columns_a() const { return transpose_a ? m : k; }
  int64_t rows_b() const { return transpose_b ? n : k; }
  int64_t columns_b() const { return transpose_b ? k : n; }
};

/// Runs `multiply` and compares with sums of products in double.
template <class T, class Multiply>
void check(const Problem& p, const Multiply& multiply) {
  SCOPED_TRACE(text("m ", p.m, " n ", p.n, " k ", p.k, p.transpose_a ? " A'" : " A",
                    p.transpose_b ? " B'" : " B", " gap ", p.gap, " alpha ", p.alpha, " beta ",
                    p.beta));
  const int64_t lda = p.columns_a() + p.gap, ldb = p.columns_b() + p.gap, ldc = p.n + p.gap;
  const auto a = numbers<T>(p.rows_a() * lda, 1);
  const auto b = numbers<T>(p.rows_b() * ldb, 2);
  const auto before = numbers<T>(p.m * ldc, 3);
  auto c = before;
  multiply(p.transpose_a, p.transpose_b, p.m, p.n, p.k, static_cast<T>(p.alpha), a.data(), lda,
           b.data(), ldb, static_cast<T>(p.beta), c.data(), ldc);
  const double tolerance = std::numeric_limits<T>::epsilon() * static_cast<double>(4 + p.k);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      if (j >= p.n) {
        ASSERT_EQ(c[i * ldc + j], before[i * ldc + j]) << "gap of row " << i << " was written";
        continue;
      }
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        sum += static_cast<double>(p.transpose_a ? a[l * lda + i] : a[i * lda + l]) *
               static_cast<double>(p.transpose_b ? b[j * ldb + l] : b[l * ldb + j]);
      }
      const double expected = p.alpha * sum + p.beta * static_cast<double>(before[i * ldc + j]);
      ASSERT_NEAR(c[i * ldc + j], expected, tolerance) << i << ", " << j;
    }
  }
}

std::vector<Problem> problems() {
  const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},     {6, 1, 9},     {5, 6, 1},
                              {3, 4, 5},    {16, 16, 16},  {17, 33, 29},  {64, 1, 50},
                              {1, 100, 80}, {50, 120, 31}, {130, 70, 200}};
  const double factors[][2] = {{1, 0}, {1, 1}, {-0.5, 0.25}, {0, 0.5}};
  std::vector<Problem> result;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& size : sizes) {
        for (const auto& factor : factors) {
          for (const int64_t gap : {0, 3}) {
            result.push_back(
                {transpose_a, transpose_b, size[0], size[1], size[2], gap, factor[0], factor[1]});
          }
        }
      }
    }
  }
  return result;
}

template <class T>
class Blas : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Blas, Floats);

TYPED_TEST(Blas, GemmInManyShapes) {
  using T = TypeParam;
  for (const Problem& problem : problems()) {
    check<T>(problem, [](auto... args) { gemm<T>(args...); });
  }
}

TYPED_TEST(Blas, GemmOfPackedMatrices) {
  using T = TypeParam;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      check<T>({transpose_a, transpose_b, 7, 9, 11},
               [](bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t,
                  const T* b, int64_t, T beta, T* c,
                  int64_t) { gemm<T>(ta, tb, m, n, k, alpha, a, b, beta, c); });
    }
  }
}

TYPED_TEST(Blas, GemmOnOneThreadAndMany) {
  using T = TypeParam;
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    check<T>({false, true, 150, 160, 170, 0, 1, 0}, [](auto... args) { gemm<T>(args...); });
  }
  omp_set_num_threads(before);
}

TYPED_TEST(Blas, GemmInsideAParallelRegion) {
  using T = TypeParam;
#pragma omp parallel for num_threads(2)
  for (int i = 0; i < 4; ++i) {
    check<T>({i % 2 == 1, i / 2 == 1, 40, 50, 60}, [](auto... args) { gemm<T>(args...); });
  }
}

TYPED_TEST(Blas, EmptySumsLeaveBetaTimesC) {
  using T = TypeParam;
  check<T>({false, false, 3, 4, 0, 2, 1, 0.5}, [](auto... args) { gemm<T>(args...); });
  check<T>({false, false, 3, 4, 0, 2, 1, 0}, [](auto... args) { gemm<T>(args...); });
  check<T>({true, true, 3, 4, 0, 0, 1, 1}, [](auto... args) { gemm<T>(args...); });
}

TYPED_TEST(Blas, EmptyResultsAreNotTouched) {
  using T = TypeParam;
  T beside = 7;  // where the result would begin
  gemm<T>(false, false, 0, 5, 3, 1, nullptr, 3, nullptr, 5, 0, &beside, 5);
  EXPECT_EQ(beside, 7);
  gemm<T>(false, false, 5, 0, 3, 1, nullptr, 3, nullptr, 1, 0, &beside, 1);
  EXPECT_EQ(beside, 7);
  gemv<T>(false, 0, 5, 1, nullptr, nullptr, 0, &beside);
  EXPECT_EQ(beside, 7);
  EXPECT_NO_THROW(gemm<T>(false, false, 0, 5, 3, 1, nullptr, 3, nullptr, 5, 0, nullptr, 5));
}

TYPED_TEST(Blas, BetaZeroOverwritesNan) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const int64_t k : {0, 3}) {
    const auto a = numbers<T>(5 * k, 1), b = numbers<T>(k * 6, 2);
    std::vector<T> c(30, nan);
    gemm<T>(false, false, 5, 6, k, 1, a.data(), b.data(), 0, c.data());
    for (const T value : c) EXPECT_FALSE(std::isnan(value)) << k;
  }
  const auto a = numbers<T>(20, 1), x = numbers<T>(5, 2);
  std::vector<T> y(5, nan);
  gemv<T>(false, 4, 5, 1, a.data(), x.data(), 0, y.data());
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(std::isnan(y[i]));
  EXPECT_TRUE(std::isnan(y[4]));
}

TYPED_TEST(Blas, Gemv) {
  using T = TypeParam;
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {3, 5}, {17, 4}, {200, 301}, {4, 0}};
  for (const auto& [m, n] : sizes) {
    for (const bool transpose : {false, true}) {
      for (const double beta : {0.0, 0.5, 1.0}) {
        const int64_t inputs = transpose ? m : n, outputs = transpose ? n : m;
        const auto a = numbers<T>(m * n, 1), x = numbers<T>(inputs, 2),
                   before = numbers<T>(outputs, 3);
        auto y = before;
        gemv<T>(transpose, m, n, T{2}, a.data(), x.data(), static_cast<T>(beta), y.data());
        for (int64_t i = 0; i < outputs; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < inputs; ++j) {
            sum += static_cast<double>(transpose ? a[j * n + i] : a[i * n + j]) * x[j];
          }
          ASSERT_NEAR(y[i], 2 * sum + beta * before[i], 200 * std::numeric_limits<T>::epsilon());
        }
      }
    }
  }
}

TYPED_TEST(Blas, Axpy) {
  using T = TypeParam;
  for (const int64_t n : {0, 1, 1000, 200001}) {
    const auto x = numbers<T>(n, 1), before = numbers<T>(n, 2);
    auto y = before;
    axpy<T>(n, T{0.5}, x.data(), y.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], before[i] + T{0.5} * x[i]);
  }
}

TYPED_TEST(Blas, DotAddsInDouble) {
  using T = TypeParam;
  for (const int64_t n : {0, 1, 7, 8192, 100003}) {
    const auto x = numbers<T>(n, 1), y = numbers<T>(n, 2);
    double expected = 0;
    for (int64_t i = 0; i < n; ++i)
      expected += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    EXPECT_NEAR(dot<T>(n, x.data(), y.data()), expected, 1e-10) << n;
  }
  // 1 is lost beside 1e8 in float.
  std::vector<T> large = {T{1e4}, T{1}, T{1}, T{1}};
  EXPECT_EQ(dot<T>(4, large.data(), large.data()), 1e8 + 3);
}

TYPED_TEST(Blas, DotIsTheSameOnAnyNumberOfThreads) {
  using T = TypeParam;
  const auto x = numbers<T>(300000, 1), y = numbers<T>(300000, 2);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = dot<T>(300000, x.data(), y.data());
  for (const int threads : {2, 3, 5}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(dot<T>(300000, x.data(), y.data()), one);
  }
  omp_set_num_threads(before);
}

TEST(OpenBlas, RefusesDimensionsThatItCannotAddress) {
  const double a = 0, b = 0;
  double c = 0;
  const int64_t n = int64_t{3} << 30;
  expect_error([&] { gemm<double>(false, false, 1, n, 1, 1, &a, 1, &b, n, 0, &c, n); },
               {"3221225472", "2147483647"});
}

TEST(OneDnnGemm, AgreesWithSumsOfProducts) {
  if (cpu_library().empty()) GTEST_SKIP() << "needs oneDNN: configure with CREMA_ONEDNN=ON";
  for (const Problem& problem : problems()) {
    if (problem.alpha != 0) check<float>(problem, onednn_gemm);
  }
}

TEST(BlasName, TellsTheLibrary) {
  const std::string name = blas_name();
  EXPECT_TRUE(name.starts_with("OpenBLAS ") || name == cpu_library()) << name;
}

}  // namespace
}  // namespace crema
