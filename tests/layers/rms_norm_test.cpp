#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

using testing::DoubleNear;
using testing::Pointwise;

LayerCase rms_norm(const std::string& settings, const Input& x,
                   std::vector<std::vector<double>> params = {}) {
  return {.layer = text("layer { type: 'RMSNorm' rms_norm_param { ", settings, " } }"),
          .bottoms = {x},
          .params = std::move(params)};
}

TEST(RMSNorm, DividesByTheRootOfTheMeanOfSquares) {
  LayerRun run(rms_norm("eps: 0", given({2, 2}, {3, 4, -6, 8}), {{1, 2}}), {.dtype = DType::f64});
  run.forward();
  const double root = std::sqrt(12.5);
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-12), {3 / root, 8 / root, -3 / root, 8 / root}));
}

TEST(RMSNorm, EpsIsAddedToTheMean) {
  LayerRun run(rms_norm("eps: 3.5", given({1, 2}, {3, 4})), {.dtype = DType::f64});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(0.75, 1));
}

TEST(RMSNorm, Parameters) {
  EXPECT_EQ(LayerRun(rms_norm("axis: 1", uniform({2, 3, 4}))).layer().params()[0]->shape(),
            (Shape{3, 4}));
  EXPECT_EQ(LayerRun(rms_norm("", uniform({2, 3, 4}))).param(0), std::vector<double>(4, 1));
  EXPECT_EQ(LayerRun(rms_norm("affine: false", uniform({2, 3}))).num_params(), 0);
}

TEST(RMSNorm, GradientsAndEngines) {
  for (const char* settings : {"", "affine: false", "axis: 1", "axis: 0", "axis: -2 eps: 0.1"}) {
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 1}, Shape{5, 7}}) {
      LayerCase c = rms_norm(settings, uniform(shape, 0.2, 1));
      check_gradients(c);
      check_engines(c);
    }
  }
  LayerCase scaled = rms_norm("", uniform({3, 4}), {{0.5, -1, 2, 3}});
  check_gradients(scaled);
  check_engines(scaled);
  check_engines(rms_norm("", uniform({3, 5000})), {1e-4, 1e-4});
  check_engines(rms_norm("", uniform({500, 300})), {1e-4, 1e-4});
}

TEST(RMSNorm, EmptyBatchesAndNewShapes) {
  LayerRun run(rms_norm("", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 3}, Shape{2, 5, 3}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), shape);
  }
  expect_error([&] { run.reshape({uniform({2, 4})}); }, {"scale", "3", "2x4"});
}

TEST(RMSNorm, Errors) {
  expect_error([] { LayerRun run(rms_norm("eps: -1", uniform({2, 3}))); }, {"eps -1"});
  expect_error([] { LayerRun run(rms_norm("axis: 2", uniform({2, 3}))); }, {"2", "2x3"});
}

}  // namespace
}  // namespace crema::test
