#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase arithmetic(const std::string& operation, const Input& a, const Input& b) {
  return {
      .layer = text("layer { type: 'Arithmetic' arithmetic_param { operation: ", operation, " } }"),
      .bottoms = {a, b}};
}

std::vector<double> result(const std::string& operation, const Input& a, const Input& b) {
  LayerRun run(arithmetic(operation, a, b), {.dtype = DType::f64});
  run.forward();
  return run.top(0);
}

const char* const kOperations[] = {"ADD", "SUB", "MUL", "DIV", "POW", "MIN", "MAX"};

TEST(Arithmetic, Operations) {
  const Input a = given({3}, {1, 2, 3}), b = given({3}, {4, 2, -2});
  EXPECT_THAT(result("ADD", a, b), ElementsAre(5, 4, 1));
  EXPECT_THAT(result("SUB", a, b), ElementsAre(-3, 0, 5));
  EXPECT_THAT(result("MUL", a, b), ElementsAre(4, 4, -6));
  EXPECT_THAT(result("DIV", a, b), ElementsAre(0.25, 1, -1.5));
  EXPECT_THAT(result("POW", a, b), ElementsAre(1, 4, testing::DoubleEq(1.0 / 9)));
  EXPECT_THAT(result("MIN", a, b), ElementsAre(1, 2, -2));
  EXPECT_THAT(result("MAX", a, b), ElementsAre(4, 2, 3));
}

TEST(Arithmetic, NanGoesThroughMinAndMax) {
  const Input a = given({2}, {NAN, 1}), b = given({2}, {1, NAN});
  for (const char* operation : {"MIN", "MAX"})
    EXPECT_THAT(result(operation, a, b), testing::Each(testing::IsNan())) << operation;
}

TEST(Arithmetic, BroadcastsAsNumpy) {
  LayerRun run(arithmetic("SUB", given({2, 1, 3}, {1, 2, 3, 4, 5, 6}), given({2, 1}, {10, 20})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(-9, -8, -7, -19, -18, -17, -6, -5, -4, -16, -15, -14));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(5, 7, 9, 17, 19, 21));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(-30, -48));
}

TEST(Arithmetic, GradientsWhereOperationsAreNotSmooth) {
  LayerRun run(arithmetic("MAX", given({3}, {1, 2, 3}), given({3}, {1, 3, 2})));
  run.forward();
  run.set_top_diff(0, {2, 4, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 0, 6));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(1, 4, 0));
  LayerRun least(arithmetic("MIN", given({3}, {1, 2, 3}), given({3}, {1, 3, 2})));
  least.forward();
  least.set_top_diff(0, {2, 4, 6});
  least.backward();
  EXPECT_THAT(least.bottom_diff(0), ElementsAre(1, 4, 0));
  EXPECT_THAT(least.bottom_diff(1), ElementsAre(1, 0, 6));
  // Powers of 0 and of negative numbers.
  LayerRun power(arithmetic("POW", given({3}, {0, -2, 0}), given({3}, {0, 3, 2})));
  power.forward();
  EXPECT_THAT(power.top(0), ElementsAre(1, -8, 0));
  power.set_top_diff(0, {1, 1, 1});
  power.backward();
  EXPECT_THAT(power.bottom_diff(0), ElementsAre(0, 12, 0));
  EXPECT_THAT(power.bottom_diff(1), ElementsAre(0, 0, 0));
}

TEST(Arithmetic, GradientsAndEngines) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 4}, {2, 3, 4}}, {{2, 3, 4}, {}},
                                            {{}, {2, 3}},           {{2, 3, 4}, {4}},
                                            {{3, 4}, {2, 3, 4}},    {{2, 3, 4, 5}, {3, 1, 1}},
                                            {{2, 1, 4}, {1, 3, 1}}, {{2, 3, 4, 5}, {2, 1, 4, 1}},
                                            {{1, 3}, {3, 1}}};
  for (const char* operation : kOperations) {
    for (const auto& [a, b] : shapes) {
      // Different values, above 0, far enough from each other for MIN and MAX.
      const LayerCase c = arithmetic(operation, uniform(a, 0.5, 1), uniform(b, 1.1, 2));
      check_gradients(c);
      check_engines(c);
    }
  }
  for (const char* operation : {"MIN", "MAX"})
    check_gradients(arithmetic(operation, uniform({4, 5}), uniform({5})));
  check_gradients(arithmetic("POW", uniform({3, 4}, -2, -0.5), given({1}, {3})), {.bottoms = {0}});
  // Runs that are longer than a block, and many rows.
  check_engines(arithmetic("MUL", uniform({70001}), uniform({1})), {1e-4, 1e-4});
  check_engines(arithmetic("MUL", uniform({301, 300}), uniform({300})), {1e-4, 1e-4});
  check_engines(arithmetic("DIV", uniform({3, 5, 700}), uniform({5, 1}, 1, 2)), {1e-4, 1e-4});
}

TEST(Arithmetic, RunsInPlaceWhereBottom0HasTheTopsShape) {
  const Input whole = uniform({2, 3}), row = uniform({3});
  EXPECT_EQ(LayerRun(arithmetic("ADD", whole, row)).kernel().in_place(), InPlace::overwrite);
  EXPECT_EQ(LayerRun(arithmetic("ADD", row, whole)).kernel().in_place(), InPlace::never);
}

TEST(Arithmetic, EmptyBatchesAndNewShapes) {
  LayerRun run(arithmetic("MUL", uniform({2, 3}), uniform({3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{5, 3}, Shape{1, 3}, Shape{4, 2, 3}}) {
    run.reshape({uniform(shape), given({3}, {2, 2, 2})});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), shape);
    for (int64_t i = 0; i < shape.count(); ++i)
      EXPECT_FLOAT_EQ(static_cast<float>(run.top(0)[static_cast<size_t>(i)]),
                      static_cast<float>(2 * run.bottom_values(0)[static_cast<size_t>(i)]));
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(Arithmetic, Errors) {
  refuses(arithmetic("ADD", uniform({2, 3}), uniform({2})),
          {"'bottom0' (2x3)", "'bottom1' (2)", "3 and 2"});
  refuses(arithmetic("ADD", uniform({2, 0}), uniform({2, 3})), {"2x0", "0 and 3"});
  refuses(
      arithmetic("ADD", uniform({2, 1, 2, 1, 2, 1, 2, 1, 2}), uniform({2, 1, 2, 1, 2, 1, 2, 1})),
      {"groups", "8"});
}

}  // namespace
}  // namespace crema::test
