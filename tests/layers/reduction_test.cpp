#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;

constexpr const char* kOperations[] = {"SUM", "ASUM", "SUMSQ", "MEAN"};

LayerCase reduction(const std::string& settings, const Shape& shape) {
  return {.layer = text("layer { type: 'Reduction' reduction_param { ", settings, " } }"),
          .bottoms = {uniform(shape)}};
}

TEST(Reduction, Operations) {
  struct Case {
    const char* operation;
    std::vector<double> top, diff;
  };
  const Case cases[] = {{"SUM", {0, 16}, {2, 2, 2, 20, 20, 20}},
                        {"ASUM", {8, 28}, {2, -2, 0, 20, -20, 20}},
                        {"SUMSQ", {16, 148}, {8, -8, 0, 160, -120, 280}},
                        {"MEAN", {0, 4}, {0.5, 0.5, 0.5, 5, 5, 5}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.operation);
    const bool mean = c.operation == std::string("MEAN");
    LayerCase layer = reduction(text("axis: 1 coeff: 2 operation: ", c.operation), {2, 3});
    layer.bottoms[0].values = {2, -2, 0, 4, -3, 7};
    if (mean) {
      layer.bottoms[0] = given({2, 4}, {2, -2, 0, 0, 4, -3, 7, 0});
    }
    LayerRun run(layer);
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{2}));
    EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-5), c.top));
    run.set_top_diff(0, {1, 10});
    run.backward();
    std::vector<double> diff = run.bottom_diff(0);
    if (mean) {
      EXPECT_EQ(diff[3], 0.5);
      diff.erase(diff.begin() + 3);
      diff.pop_back();
    }
    EXPECT_THAT(diff, Pointwise(DoubleNear(1e-4), c.diff));
  }
}

TEST(Reduction, Shapes) {
  const auto top = [](const std::string& settings, const Shape& shape) {
    LayerRun run(reduction(settings, shape));
    return run.top_blob(0).shape();
  };
  EXPECT_EQ(top("", {2, 3, 4}), Shape{});
  EXPECT_EQ(top("axis: 1", {2, 3, 4}), (Shape{2}));
  EXPECT_EQ(top("axis: -1", {2, 3, 4}), (Shape{2, 3}));
  EXPECT_EQ(top("", {}), Shape{});
}

TEST(Reduction, GradientsAndEngines) {
  for (const char* operation : kOperations) {
    for (const char* axis : {"axis: 0", "axis: 1", "axis: -1 coeff: -0.7"}) {
      for (const Shape& shape : {Shape{2, 3, 4}, Shape{1, 1, 1}, Shape{3, 1, 17}}) {
        const LayerCase c = reduction(text("operation: ", operation, " ", axis), shape);
        check_gradients(c, {.kink_range = 1e-4});
        check_engines(c);
      }
    }
    check_gradients(reduction(text("operation: ", operation), {}), {.kink_range = 1e-4});
    // Rows of several threads, and several rows of a thread.
    for (const Shape& shape : {Shape{2, 70001}, Shape{1, 140003}, Shape{3000, 37}}) {
      check_engines(reduction(text("axis: 1 operation: ", operation), shape), {1e-4, 1e-4});
    }
  }
}

TEST(Reduction, ThreadsDoNotChangeIt) {
  const int before = omp_get_max_threads();
  for (const Shape& shape : {Shape{2, 90001}, Shape{500, 301}}) {
    std::vector<double> of_one;
    for (const int threads : {1, 2, 5}) {
      omp_set_num_threads(threads);
      LayerRun run(reduction("axis: 1", shape));
      run.forward();
      if (of_one.empty()) of_one = run.top(0);
      EXPECT_EQ(run.top(0), of_one) << threads;
    }
  }
  omp_set_num_threads(before);
}

TEST(Reduction, ReadsItsBottomWhereTheSlopeDependsOnIt) {
  const auto reads = [](const std::string& operation) {
    LayerRun run(reduction("operation: " + operation, {2, 3}));
    return static_cast<bool>(run.kernel().backward_reads().bottom_data);
  };
  EXPECT_FALSE(reads("SUM"));
  EXPECT_FALSE(reads("MEAN"));
  EXPECT_TRUE(reads("ASUM"));
  EXPECT_TRUE(reads("SUMSQ"));
}

TEST(Reduction, EmptyBatches) {
  for (const char* operation : kOperations) {
    for (const char* axis : {"axis: 0", "axis: 1"}) {
      for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}}) {
        LayerRun run(reduction(text("operation: ", operation, " ", axis), shape));
        run.forward();
        EXPECT_THAT(run.top(0), Each(0)) << operation;
        run.backward();
      }
    }
  }
}

TEST(Reduction, Errors) {
  expect_error([] { LayerRun run(reduction("axis: 3", {2, 3})); }, {"3", "2x3"});
  expect_error([] { LayerRun run(reduction("axis: 1", {})); }, {"1"});
  expect_error([] { LayerRun run(reduction("coeff: nan", {2, 3})); }, {"coeff nan"});
  expect_error([] { LayerRun run(reduction("coeff: inf", {2, 3})); }, {"coeff inf"});
}

}  // namespace
}  // namespace crema::test
