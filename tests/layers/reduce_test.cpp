#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

using testing::DoubleNear;
using testing::Pointwise;

LayerCase reduce(const std::string& settings, const Input& x) {
  return {.layer = text("layer { type: 'Reduce' reduce_param { ", settings, " } }"),
          .bottoms = {x}};
}
std::vector<double> reduced(const std::string& settings, const Input& x) {
  LayerRun run(reduce(settings, x), {.dtype = DType::f64});
  run.forward();
  return run.top(0);
}

const char* const kOperations[] = {"SUM", "MEAN", "MAX",        "MIN",     "PROD",
                                   "L1",  "L2",   "SUM_SQUARE", "LOG_SUM", "LOG_SUM_EXP"};

TEST(Reduce, Operations) {
  const Input x = given({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto along = [&](const char* operation) {
    return reduced(text("axis: 1 operation: ", operation), x);
  };
  EXPECT_THAT(along("SUM"), ElementsAre(6, 15));
  EXPECT_THAT(along("MEAN"), ElementsAre(2, 5));
  EXPECT_THAT(along("MAX"), ElementsAre(3, 6));
  EXPECT_THAT(along("MIN"), ElementsAre(1, 4));
  EXPECT_THAT(along("PROD"), ElementsAre(6, 120));
  EXPECT_THAT(along("SUM_SQUARE"), ElementsAre(14, 77));
  EXPECT_THAT(along("L2"), Pointwise(DoubleNear(1e-12), {std::sqrt(14), std::sqrt(77)}));
  EXPECT_THAT(along("LOG_SUM"), Pointwise(DoubleNear(1e-12), {std::log(6), std::log(15)}));
  const double one = std::log(std::exp(1) + std::exp(2) + std::exp(3));
  EXPECT_THAT(along("LOG_SUM_EXP"), Pointwise(DoubleNear(1e-12), {one, one + 3}));
  EXPECT_THAT(reduced("operation: L1", given({3}, {1, -2, 3})), ElementsAre(6));
}

TEST(Reduce, AxesAndShapes) {
  const Input x = uniform({2, 3, 4});
  const auto shape = [&](const std::string& settings) {
    return LayerRun(reduce(settings, x)).top_blob(0).shape();
  };
  EXPECT_EQ(shape(""), (Shape{1, 1, 1}));
  EXPECT_EQ(shape("keep_dims: false"), Shape{});
  EXPECT_EQ(shape("axis: 1"), (Shape{2, 1, 4}));
  EXPECT_EQ(shape("axis: -1 axis: 0"), (Shape{1, 3, 1}));
  EXPECT_EQ(shape("axis: -1 axis: 0 keep_dims: false"), (Shape{3}));
}

TEST(Reduce, LargeExponentsAndInfinity) {
  EXPECT_THAT(reduced("operation: LOG_SUM_EXP", given({2}, {1000, 1000})),
              Pointwise(DoubleNear(1e-9), {1000 + std::log(2)}));
  EXPECT_THAT(reduced("operation: LOG_SUM_EXP", given({2}, {-INFINITY, -INFINITY})),
              ElementsAre(-INFINITY));
  EXPECT_THAT(reduced("operation: LOG_SUM_EXP", given({2}, {INFINITY, 1})), ElementsAre(INFINITY));
  for (const char* operation : {"MAX", "MIN", "LOG_SUM_EXP", "SUM"}) {
    EXPECT_THAT(reduced(text("operation: ", operation), given({3}, {1, NAN, 2})),
                ElementsAre(testing::IsNan()))
        << operation;
  }
}

TEST(Reduce, GradientsWhereOperationsAreNotSmooth) {
  const auto gradient = [](const char* operation, std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    LayerRun run(reduce(text("operation: ", operation), given({count}, std::move(values))));
    run.forward();
    run.set_top_diff(0, {6});
    run.backward();
    return run.bottom_diff(0);
  };
  EXPECT_THAT(gradient("MAX", {3, 1, 3, 3}), ElementsAre(2, 0, 2, 2));
  EXPECT_THAT(gradient("MIN", {3, 1, 1, 3}), ElementsAre(0, 3, 3, 0));
  EXPECT_THAT(gradient("PROD", {2, 0, 3}), ElementsAre(0, 36, 0));
  EXPECT_THAT(gradient("PROD", {0, 0, 3}), ElementsAre(0, 0, 0));
  EXPECT_THAT(gradient("L1", {-2, 0, 3}), ElementsAre(-6, 0, 6));
  EXPECT_THAT(gradient("L2", {0, 0}), ElementsAre(0, 0));
}

TEST(Reduce, GradientsAndEngines) {
  for (const char* operation : kOperations) {
    for (const char* axes :
         {"", "axis: 0", "axis: 1", "axis: 2", "axis: 0 axis: 2", "axis: 1 axis: 2"}) {
      for (const char* keep : {"", " keep_dims: false"}) {
        const LayerCase c =
            reduce(text("operation: ", operation, " ", axes, keep), uniform({3, 4, 5}, 0.5, 1.5));
        check_gradients(c);
        check_engines(c);
      }
    }
    // Below 0, too, where there is a result.
    if (std::string(operation) != "LOG_SUM")
      check_gradients(reduce(text("axis: 1 operation: ", operation), uniform({3, 4})),
                      {.kink_range = 1e-3});
  }
  for (const char* operation : {"SUM", "MAX", "LOG_SUM_EXP"}) {
    const std::string of = text("operation: ", operation);
    check_engines(reduce(of, uniform({70001})), {1e-4, 1e-4});
    check_engines(reduce(of + " axis: 0", uniform({301, 300})), {1e-4, 1e-4});
    check_engines(reduce(of + " axis: 0 axis: 2", uniform({7, 3, 700})), {1e-4, 1e-4});
  }
}

TEST(Reduce, NoValuesAndNewShapes) {
  EXPECT_THAT(reduced("axis: 1", uniform({2, 0})), ElementsAre(0, 0));
  EXPECT_THAT(reduced("axis: 1 operation: PROD", uniform({2, 0})), ElementsAre(1, 1));
  EXPECT_THAT(reduced("axis: 1 operation: LOG_SUM_EXP", uniform({1, 0})), ElementsAre(-INFINITY));
  EXPECT_THAT(reduced("axis: 1 operation: MEAN", uniform({1, 0})), ElementsAre(testing::IsNan()));
  LayerRun run(reduce("axis: 1 operation: PROD", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 2}, Shape{1, 3, 2}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape()[1], 1);
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(Reduce, Errors) {
  refuses(reduce("axis: 2", uniform({2, 3})), {"2", "2x3"});
  refuses(reduce("axis: 1 axis: -1", uniform({2, 3})), {"axis -1", "'bottom0' (2x3)", "twice"});
  refuses(reduce("axis: 1 operation: MAX", uniform({2, 0})), {"no value", "greatest"});
  refuses(reduce("axis: 1 operation: MIN", uniform({2, 0})), {"no value", "least"});
}

}  // namespace
}  // namespace crema::test
