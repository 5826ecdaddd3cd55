#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string bn(const std::string& settings) {
  return text("layer { type: 'BN' bn_param { ", settings, " } }");
}

// One channel of mean 4 and variance 5, another of mean 2 and variance 0.
const Input kValues = given({2, 2, 1, 2}, {1, 3, 2, 2, 5, 7, 2, 2});

TEST(BN, NormalizesAndMovesTheAverages) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = bn("momentum: 0.75 eps: 0.25"),
                  .bottoms = {kValues},
                  .params = {{2, 3}, {0.5, -1}, {8, 1}, {2, 4}}},
                 {.engine = engine});
    run.forward();
    const double k = 2 / std::sqrt(5.25);
    expect_close(run.top(0), {-3 * k + 0.5, -k + 0.5, -1, -1, k + 0.5, 3 * k + 0.5, -1, -1},
                 {1e-5, 0}, engine);
    expect_close(run.param(2), {0.75 * 8 + 0.25 * 4, 0.75 * 1 + 0.25 * 2}, {1e-6, 0}, "means");
    expect_close(run.param(3), {0.75 * 2 + 0.25 * 5 * 4 / 3, 3}, {1e-6, 0}, "variances");
  }
}

TEST(BN, StoredStatistics) {
  const LayerCase test = {.layer = bn("eps: 0"),
                          .bottoms = {kValues},
                          .phase = Phase::test,
                          .params = {{2, 3}, {0.5, -1}, {1, 0}, {4, 1}}};
  LayerCase frozen = test;
  frozen.phase = Phase::train;
  frozen.layer = bn("eps: 0 frozen: true");
  for (const LayerCase& c : {test, frozen}) {
    for (const char* engine : {"reference", "native"}) {
      LayerRun run(c, {.engine = engine});
      run.forward();
      expect_close(run.top(0), {0.5, 2.5, 5, 5, 4.5, 6.5, 5, 5}, {1e-6, 0}, engine);
      EXPECT_THAT(run.param(2), testing::ElementsAre(1, 0));
    }
  }
}

TEST(BN, ScaleAndShiftAlone) {
  LayerCase c = {.layer = bn("bn_mode: LEARN eps: 0.25"),
                 .bottoms = {kValues},
                 .phase = Phase::test,  // learns from the batch in every phase
                 .params = {{2, 3}, {0.5, -1}}};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    ASSERT_EQ(run.num_params(), 2);
    run.forward();
    const double k = 2 / std::sqrt(5.25);
    expect_close(run.top(0), {-3 * k + 0.5, -k + 0.5, -1, -1, k + 0.5, 3 * k + 0.5, -1, -1},
                 {1e-5, 0}, engine);
    LayerCase folded = c;
    folded.layer = bn("bn_mode: INFERENCE");
    LayerRun inference(folded, {.engine = engine});
    inference.forward();
    expect_close(inference.top(0), {2.5, 6.5, 5, 5, 10.5, 14.5, 5, 5}, {1e-6, 0}, engine);
  }
}

TEST(BN, EpsOfTheForkWithoutStatistics) {
  LayerRun run({.layer = bn("bn_mode: LEARN"), .bottoms = {given({2, 1}, {0, 2e-4})}},
               {.dtype = DType::f64});
  run.forward();
  const double y = 1e-4 / std::sqrt(1e-8 + 1e-9);
  expect_close(run.top(0), {-y, y}, {1e-9, 0}, "y");
}

TEST(BN, Gradients) {
  const std::vector<std::vector<double>> scale = {{0.5, -2, 1.5}, {0.1, 0.2, -0.3}};
  std::vector<std::vector<double>> all = scale;
  all.push_back({0.3, -0.1, 0.2});
  all.push_back({0.5, 1.5, 2});
  for (const Shape& shape : {Shape{4, 3, 3, 2}, Shape{5, 3}, Shape{2, 3, 17}}) {
    for (const char* settings : {"", "frozen: true", "momentum: 0.5 eps: 0.1"}) {
      const LayerCase c{.layer = bn(settings), .bottoms = {uniform(shape, -2, 3)}, .params = all};
      check_gradients(c);
      check_engines(c);
    }
    for (const char* settings : {"bn_mode: LEARN", "bn_mode: INFERENCE"}) {
      const LayerCase c{.layer = bn(settings), .bottoms = {uniform(shape, -2, 3)}, .params = scale};
      check_gradients(c);
      check_engines(c);
      check_engines({.layer = bn(settings),
                     .bottoms = {uniform(shape, -2, 3)},
                     .params = scale,
                     .tail = {"layer { type: 'ReLU' }"}});
    }
  }
}

TEST(BN, Errors) {
  expect_error([] { LayerRun({.layer = bn("momentum: 1.5"), .bottoms = {kValues}}); },
               {"momentum 1.5", "[0, 1]"});
  expect_error([] { LayerRun({.layer = bn("eps: -1"), .bottoms = {kValues}}); }, {"eps -1"});
  expect_error(
      [] { LayerRun({.layer = bn("bn_mode: LEARN momentum: 0.9"), .bottoms = {kValues}}); },
      {"momentum", "bn_mode", "another fork's"});
  expect_error([] { LayerRun({.layer = bn(""), .bottoms = {given({}, {1})}}); }, {"scalar"});
}

}  // namespace
}  // namespace crema::test
