#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase parameter(const std::string& settings) {
  return {.layer = text("layer { type: 'Parameter' parameter_param { ", settings, " } }")};
}

TEST(Parameter, GivesItsParameterAndCollectsGradients) {
  LayerCase c = parameter("shape { dim: 3 dim: 1 }");
  c.params = {{1, 2, 3}};
  LayerRun run(c);
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 1}));
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{3, 1}));
  run.set_top_diff(0, {4, 5, 6});
  run.forward();
  run.backward();
  run.backward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(run.gradient(0), ElementsAre(8, 10, 12));
}

TEST(Parameter, GradientsAndEngines) {
  for (const char* settings : {"shape { dim: 3 dim: 5 }", "shape {}", "shape { dim: 0 }"}) {
    check_gradients(parameter(settings));
    check_engines(parameter(settings));
  }
}

TEST(Parameter, StartsAtZeroAndMayBeFrozen) {
  LayerRun run(parameter("shape { dim: 4 }"));
  EXPECT_THAT(run.param(0), testing::Each(0));
  run.layer().params()[0]->needs_gradient = false;
  run.forward();
  run.backward();
  EXPECT_THAT(run.gradient(0), testing::Each(0));
}

// A layer that computes in place must not change the parameter.
TEST(Parameter, LearnsInANet) {
  const NetParameter param = net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
      layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 3 } } }
      layer { name: "act" type: "Sigmoid" bottom: "p" top: "p" }
      layer { name: "scale" type: "Scale" bottom: "x" bottom: "p" top: "y" }
      layer { name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: 1 })");
  Context context;
  Net net(param, context, {.dtype = DType::f64});
  fill_inputs(net);
  net.forward();
  net.forward();
  EXPECT_THAT(params_of(net), testing::Each(0));
  check_net_gradients(net);
}

TEST(Parameter, Errors) {
  expect_error([] { LayerRun run(parameter("")); }, {"no shape"});
  expect_error([] { LayerRun run(parameter("shape { dim: -1 }")); }, {"-1"});
}

}  // namespace
}  // namespace crema::test
