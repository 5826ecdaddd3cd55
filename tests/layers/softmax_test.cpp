#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "core/simd.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string softmax(const std::string& settings = "") {
  return text("layer { type: 'Softmax' softmax_param { ", settings, " } }");
}

TEST(Softmax, Values) {
  LayerRun run({.layer = softmax(), .bottoms = {given({2, 3}, {0, 0, 0, 1, 2, 3})}});
  run.forward();
  const double sum = std::exp(-2) + std::exp(-1) + 1;
  expect_close(run.top(0),
               {1. / 3, 1. / 3, 1. / 3, std::exp(-2) / sum, std::exp(-1) / sum, 1 / sum}, {1e-6, 0},
               "top");
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  LayerRun run({.layer = softmax(), .bottoms = {given({1, 3}, {1e30, 1e30, -1e30})}});
  run.forward();
  expect_close(run.top(0), {0.5, 0.5, 0}, {1e-7, 0}, "top");
}

TEST(Softmax, Axis) {
  LayerRun run({.layer = softmax("axis: 0"), .bottoms = {given({2, 2}, {0, 5, 0, 5})}});
  run.forward();
  expect_close(run.top(0), {0.5, 0.5, 0.5, 0.5}, {1e-7, 0}, "top");
}

TEST(Softmax, Gradients) {
  check_gradients({.layer = softmax(), .bottoms = {uniform({3, 5}, -2, 2)}});
  check_gradients({.layer = softmax(), .bottoms = {uniform({2, 4, 3, 2}, -2, 2)}});
  check_gradients({.layer = softmax("axis: -1"), .bottoms = {uniform({2, 4, 3}, -2, 2)}});
}

void check_shapes() {
  for (const Shape& shape :
       {Shape{5, 1000}, Shape{7, 1}, Shape{3, 19}, Shape{131, 21}, Shape{70, 64}, Shape{3, 65},
        Shape{2, 21, 17, 19}, Shape{2, 3, 1, 2}, Shape{1, 5, 4, 16}}) {
    SCOPED_TRACE(shape.str());
    check_engines({.layer = softmax(), .bottoms = {uniform(shape, -10, 10)}});
  }
}

TEST(Softmax, EveryEngine) { check_shapes(); }

TEST(Softmax, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    check_shapes();
  }
}

// Where probabilities are not wanted, logarithms keep the digits of a small loss.
TEST(Softmax, LogarithmsOfSums) {
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    for (const int64_t classes : {1, 2, 21, 64, 70}) {
      AxisSplit split;
      split.outer = 83;
      split.size = classes;
      std::vector<float> x(static_cast<size_t>(split.count()));
      for (size_t i = 0; i < x.size(); ++i) {
        // Some rows have a class far above the others, some have it twice, some have all alike.
        const size_t row = i / static_cast<size_t>(classes), c = i % static_cast<size_t>(classes);
        x[i] = static_cast<float>(std::sin(static_cast<double>(3 * i)) * 4);
        if (row % 4 == 1 && c == 0) x[i] = 15;
        if (row % 4 == 2 && c < 2) x[i] = 15;
        if (row % 4 == 3) x[i] = -200;
      }
      x[static_cast<size_t>(7 * classes)] = std::nanf("");
      std::vector<double> log_sum(83);
      softmax_positions(split, 0, 83, x.data(), nullptr, log_sum.data());
      for (size_t row = 0; row < 83; ++row) {
        const auto begin = x.begin() + static_cast<int64_t>(row) * classes;
        const double largest = *std::max_element(begin, begin + classes);
        double rest = -1;
        for (auto at = begin; at != begin + classes; ++at) rest += std::exp(*at - largest);
        if (row == 7) {
          EXPECT_TRUE(std::isnan(log_sum[row])) << classes;
        } else {
          const double expected = std::log1p(rest);
          EXPECT_NEAR(log_sum[row] - largest, expected, 3e-6 * expected + 1e-14) << classes;
        }
      }
    }
  }
}

// Rows whose scores are infinite, NaN, or finite with a sum that is not.
TEST(Softmax, LogarithmsOfSumsOfInfiniteScores) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<std::vector<float>> starts = {
      {3e38F, 3e38F, -inf}, {-3e38F, 3e38F, 1}, {-inf, -inf, 2}, {inf, 1, 2},     {1, inf, -inf},
      {inf, inf, inf},      {nan, 1, 2},        {1, 2, nan},     {nan, inf, -inf}};
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    for (const int64_t classes : {3, 21, 70}) {
      // What is behind the start is alike, and in the last case nothing has a probability.
      for (const float rest : {-1.0F, -inf}) {
        for (size_t row = 0; row <= starts.size(); ++row) {
          SCOPED_TRACE(text(to_string(level), " ", classes, " ", rest, " ", row));
          AxisSplit split;
          split.outer = 1;
          split.size = classes;
          std::vector<float> x(static_cast<size_t>(classes), rest), y(x.size());
          if (row < starts.size()) std::ranges::copy(starts[row], x.begin());
          const double expected = softmax_forward<float>(x.data(), nullptr, classes, 1);
          for (float* const to : {static_cast<float*>(nullptr), y.data()}) {
            double log_sum = 0;
            softmax_positions(split, 0, 1, x.data(), to, &log_sum);
            EXPECT_EQ(std::isnan(log_sum), std::isnan(expected)) << log_sum << ' ' << expected;
            if (std::isnan(expected)) continue;
            EXPECT_NEAR(log_sum / expected, 1, 1e-6);
          }
        }
      }
    }
  }
}

// NaN and infinity must be seen further on, at every place of a vector and behind it.
TEST(Softmax, NaNFillsItsPosition) {
  const int64_t classes = 19;
  for (const Shape& shape : {Shape{3, classes}, Shape{1, classes, 1, 3}}) {
    const int64_t inner = shape.count() == 3 * classes && shape.rank() == 4 ? 3 : 1;
    for (int64_t place = 0; place < classes; ++place) {
      std::vector<double> values(static_cast<size_t>(shape.count()), 0.5);
      const auto at = static_cast<size_t>(inner == 1 ? classes + place : place * 3 + 1);
      values[at] = std::nan("");
      LayerRun run({.layer = softmax(), .bottoms = {given(shape, values)}});
      run.forward();
      for (int64_t c = 0; c < classes; ++c) {
        const auto value = [&](int64_t position) {
          return run.top(
              0)[static_cast<size_t>(inner == 1 ? position * classes + c : c * 3 + position)];
        };
        EXPECT_NEAR(value(0), 1.0 / classes, 1e-7);
        EXPECT_TRUE(std::isnan(value(1))) << shape.str() << " NaN at " << place << ", class " << c;
        EXPECT_NEAR(value(2), 1.0 / classes, 1e-7);
      }
    }
  }
}

/// Lanes of a warp, each a thread; sum and max wait for all of them, as a warp's shuffles do.
struct Warp {
  static constexpr int64_t kLanes = 4;
  std::barrier<> barrier{kLanes};
  std::array<double, kLanes> values{};

  struct Lane {
    static constexpr int64_t count = kLanes;
    int64_t first;
    Warp* warp;
    template <class T, class Combine>
    T combine(T value, const Combine& both) const {
      warp->values[static_cast<size_t>(first)] = static_cast<double>(value);
      warp->barrier.arrive_and_wait();
      double all = warp->values[0];
      for (size_t lane = 1; lane < kLanes; ++lane) all = both(all, warp->values[lane]);
      warp->barrier.arrive_and_wait();
      return static_cast<T>(all);
    }
    template <class T>
    T sum(T value) const {
      return combine(value, std::plus());
    }
    template <class T>
    T max(T value) const {
      return combine(value, [](double a, double b) { return std::max(a, b); });
    }
  };
  /// body(i, lane) for all positions, by all lanes.
  template <class Body>
  static void run(int64_t positions, const Body& body) {
    Warp warp;
    std::vector<std::thread> threads;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      threads.emplace_back([&, lane] {
        for (int64_t i = 0; i < positions; ++i) body(i, Lane{lane, &warp});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

// What a warp computes together. Fewer classes than lanes leave some idle.
TEST(Softmax, LanesShareAPosition) {
  for (const Shape& shape : {Shape{3, 2}, Shape{3, 19}, Shape{2, 5, 3}}) {
    SCOPED_TRACE(shape.str());
    LayerRun run({.layer = softmax(), .bottoms = {uniform(shape, -5, 5)}}, {.dtype = DType::f64});
    run.forward();
    run.backward();
    const AxisSplit split(shape, 1);
    std::vector<double> y(run.top(0).size()), dx(y.size());
    std::vector<double> log_sum(static_cast<size_t>(split.positions()));
    Warp::run(split.positions(),
              SoftmaxForward<double>{split, run.bottom_values(0).data(), y.data(), log_sum.data()});
    expect_close(y, run.top(0), {1e-12, 0}, "y");
    for (int64_t i = 0; i < split.positions(); ++i) {
      const auto at = static_cast<size_t>(split.at(i));
      EXPECT_NEAR(log_sum[static_cast<size_t>(i)], run.bottom_values(0)[at] - std::log(y[at]),
                  1e-12);
    }
    Warp::run(split.positions(),
              SoftmaxBackward<double>{split, run.top_diff(0).data(), y.data(), dx.data()});
    expect_close(dx, run.bottom_diff(0), {1e-12, 0}, "dx");
  }
}

TEST(Softmax, Errors) {
  expect_error(
      [] {
        LayerRun run({.layer = softmax("axis: 2"), .bottoms = {uniform({2, 3})}});
      },
      {"2", "2x3"});
  expect_error(
      [] {
        LayerRun run({.layer = softmax(), .bottoms = {uniform({2, 0})}});
      },
      {"axis 1", "2x0", "the axis has no classes"});
}

}  // namespace
}  // namespace crema::test
