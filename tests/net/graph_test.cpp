// From a prototxt to connected layers: names, states, arities, and what is said when they are
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/text_format.hpp"
#include "net/plan.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;
using ::testing::ElementsAre;

const std::string kData = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
)";

std::vector<std::string> layer_names(const Net& net) {
  std::vector<std::string> names;
  for (const Layer* layer : net.layers()) names.push_back(layer->name());
  return names;
}

std::vector<std::string> names_in(const std::string& text, const NetOptions& options) {
  Context context;
  return layer_names(Net(net_param(text), context, options));
}

TEST(Filter, KeepsLayersByPhaseLevelAndStage) {
  const std::string text = kData + R"(
layer { name: "train" type: "ReLU" bottom: "data" top: "a" include { phase: TRAIN } }
layer { name: "test" type: "ReLU" bottom: "data" top: "a" include { phase: TEST } }
layer { name: "deep" type: "ReLU" bottom: "data" top: "b" include { min_level: 2 max_level: 3 } }
layer { name: "fine" type: "ReLU" bottom: "data" top: "c" include { stage: "fine" not_stage: "quick" } }
layer { name: "not_fine" type: "ReLU" bottom: "data" top: "d" exclude { stage: "fine" } }
)";
  EXPECT_THAT(names_in(text, {.phase = Phase::train}), ElementsAre("data", "train", "not_fine"));
  EXPECT_THAT(names_in(text, {.phase = Phase::test, .level = 2}),
              ElementsAre("data", "test", "deep", "not_fine"));
  EXPECT_THAT(names_in(text, {.phase = Phase::test, .level = 4, .stages = {"fine"}}),
              ElementsAre("data", "test", "fine"));
  EXPECT_THAT(names_in(text, {.phase = Phase::test, .stages = {"fine", "quick"}}),
              ElementsAre("data", "test"));
}

TEST(Filter, RefusesBothKindsOfRules) {
  expect_error(
      [] {
        names_in(kData + R"(layer { name: "r" type: "ReLU" bottom: "data" top: "a"
                            include { phase: TRAIN } exclude { phase: TEST } })",
                 {});
      },
      {"'r'", "include and exclude"});
}

void expect_net_error(const std::string& text, std::initializer_list<std::string_view> parts) {
  expect_error(
      [&] {
        Context context;
        Net(net_param(text), context, {});
      },
      parts);
}

TEST(Graph, NamesTheLayerAndTheNearestBlob) {
  expect_net_error(kData + R"(layer { name: "r" type: "ReLU" bottom: "dota" top: "a" })",
                   {"layer 'r' (ReLU)", "bottom 'dota'", "did you mean 'data'?"});
}

TEST(Graph, RefusesATopThatExists) {
  expect_net_error(kData + R"(
layer { name: "one" type: "ReLU" bottom: "data" top: "a" }
layer { name: "two" type: "ReLU" bottom: "data" top: "a" })",
                   {"'two'", "top 'a'", "'one'"});
  expect_net_error(kData + R"(layer { name: "s" type: "Split" bottom: "data" top: "a" top: "a" })",
                   {"top 'a' twice"});
}

TEST(Graph, RefusesWrongNumbersOfBlobs) {
  expect_net_error(
      kData + R"(layer { name: "r" type: "ReLU" bottom: "data" bottom: "data" top: "a" })",
      {"'r'", "2 bottoms", "takes 1"});
  expect_net_error(
      kData +
          R"(layer { name: "r" type: "ReLU" bottom: "data" top: "a" loss_weight: 1 loss_weight: 2 })",
      {"1 tops", "2 loss_weight"});
  expect_net_error(kData + R"(layer { name: "r" type: "ReLU" bottom: "data" top: "a"
                              propagate_down: true propagate_down: true })",
                   {"1 bottoms", "2 propagate_down"});
}

TEST(Graph, SaysWhichTypeIsUnknown) {
  expect_net_error(kData + R"(layer { name: "r" type: "Relu" bottom: "data" top: "a" })",
                   {"'Relu'", "'ReLU'"});
}

TEST(Graph, RefusesAnEmptyNet) { expect_net_error("name: 'empty'", {"no layers"}); }

TEST(Graph, PositionsReachErrors) {
  const std::string path = ::testing::TempDir() + "/crema_position.prototxt";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs(
      "name: 'n'\nlayer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 1 } } }\n\n"
      "layer {\n  name: 'r' type: 'ReLU' bottom: 'x' top: 'y'\n}\n",
      file);
  fclose(file);
  expect_error(
      [&] {
        Context context;
        Net net(path, context, {});
      },
      {path + ":4", "layer 'r' (ReLU)", "bottom 'x'"});
}

TEST(Graph, LossesMayLeaveTheirTopOut) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" top: "y" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "x" bottom: "y" })"),
          context, {});
  net.input("x").fill(1);
  net.input("y").fill(3);
  EXPECT_NEAR(net.forward(), 6, 1e-6);  // 6 values, each 2^2 / 2, over 2 rows
}

TEST(Graph, OldInputsBecomeLayers) {
  Context context;
  Net net(net_param(R"(input: "a" input: "b" input_shape { dim: 2 dim: 3 } input_shape { dim: 4 }
layer { name: "r" type: "ReLU" bottom: "a" top: "r" })"),
          context, {.phase = Phase::test});
  EXPECT_THAT(net.inputs(), ElementsAre("a", "b"));
  EXPECT_EQ(net.blob("r").shape(), (Shape{2, 3}));
  EXPECT_EQ(net.blob("b").shape(), (Shape{4}));
  expect_net_error(R"(input: "a" input_dim: 1 input_dim: 2
layer { name: "r" type: "ReLU" bottom: "a" top: "r" })",
                   {"1 input", "2 input_dim"});
}

TEST(Graph, LossWeightsAddUp) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" top: "y" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "l1" type: "EuclideanLoss" bottom: "x" bottom: "y" top: "l1" loss_weight: 3 }
layer { name: "l2" type: "EuclideanLoss" bottom: "x" bottom: "y" top: "l2" loss_weight: 0 }
layer { name: "r" type: "ReLU" bottom: "x" top: "r" loss_weight: 2 })"),
          context, {});
  net.input("x").fill(5);
  net.input("y").fill(1);
  EXPECT_NEAR(net.forward(), 3 * 8 + 2 * 5, 1e-5);
  EXPECT_EQ(net.loss_weight("l2"), 0);
}

TEST(Graph, AsksForBlobsAndLayersByName) {
  Context context;
  Net net(net_param(kData), context, {});
  expect_error([&] { net.blob("dat"); }, {"'dat'", "'data'"});
  expect_error([&] { net.layer("dat"); }, {"'dat'", "'data'"});
  expect_error([&] { net.input("nothing"); }, {"'nothing'"});
  expect_error([&] { Net(net_param(kData), context, {.keep = {"dat"}}); }, {"keep", "'data'"});
}

}  // namespace
}  // namespace crema
