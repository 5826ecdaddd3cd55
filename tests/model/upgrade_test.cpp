// Old nets and solvers as wholes: padding layers, inputs, transforms, positions, and what cannot be
// upgraded.
#include "model/upgrade/upgrade.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Message>
Message parse(const std::string& text, SourceMap* map = nullptr) {
  Message message;
  parse_text_proto(text, "old.prototxt", message, map);
  return message;
}

/// A net and what its upgrade did.
struct Upgraded {
  explicit Upgraded(const std::string& text) {
    net = parse<NetParameter>(text, &map);
    done = upgrade_net(net, map);
  }
  /// Fails unless the net is that of the text.
  void expect(const std::string& text) const {
    const auto expected = parse<NetParameter>(text);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(net, expected))
        << net.DebugString();
  }
  std::vector<std::string> places() const {
    std::vector<std::string> found;
    for (const Position& position : done.positions) found.push_back(position.str());
    return found;
  }
  SourceMap map;
  NetParameter net;
  NetUpgrade done;
};

void expect_refusal(const std::string& text, std::initializer_list<std::string_view> parts) {
  expect_error([&] { Upgraded{text}; }, parts);
}

TEST(UpgradeTest, ACurrentNetStaysAsItIs) {
  const std::string text =
      "name: 'a' layer { name: 'b' type: 'BatchNorm' param { lr_mult: 1 } }\n"
      "layer { name: 'd' type: 'Data' transform_param { scale: 2 } }";
  const Upgraded net(text);
  net.expect(text);
  EXPECT_THAT(net.done.changes, IsEmpty());
  EXPECT_FALSE(net.done.is_old);
  EXPECT_THAT(net.places(), ElementsAre("old.prototxt:1:11", "old.prototxt:2:1"));
}

TEST(UpgradeTest, PaddingLayersBecomePadOfTheLayersBehind) {
  const Upgraded net(R"(name: "v0" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 5 } bottom: "pad1" top: "conv1" }
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "pad2" type: "padding" pad: 1 } bottom: "conv1" top: "pad2" }
layers { layer { name: "pool2" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "pad2" top: "pool2" }
layers { layer { name: "side" type: "conv" num_output: 1 kernelsize: 3 pad: 0 } bottom: "pad2" top: "side" })");
  net.expect(R"(name: "v0"
layer { name: "input" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 4 kernel_size: 5 pad: 2 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool2" type: "Pooling" bottom: "conv1" top: "pool2"
        pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "side" type: "Convolution" bottom: "conv1" top: "side"
        convolution_param { num_output: 1 kernel_size: 3 pad: 1 } })");
  EXPECT_THAT(net.places(), ElementsAre("old.prototxt:1:12", "old.prototxt:3:1", "old.prototxt:4:1",
                                        "old.prototxt:6:1", "old.prototxt:7:1"));
  ASSERT_EQ(net.done.changes.size(), 2u);
  EXPECT_THAT(net.done.changes[0], HasSubstr("6 layers of the V0 format"));
  EXPECT_THAT(net.done.changes[0], HasSubstr("2 padding layers"));
  EXPECT_THAT(net.done.warnings, IsEmpty());
}

TEST(UpgradeTest, PaddingThatCannotBeFoldedIsAnError) {
  const std::string pad =
      "layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'a' top: 'p' }\n";
  expect_refusal(
      pad + "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }",
      {"old.prototxt:2:", "layer 'r' (relu)", "padding layer 'p'", "only conv and pool"});
  expect_refusal(pad + "layers { layer { name: 'c' type: 'conv' pad: 1 } bottom: 'p' top: 'c' }",
                 {"old.prototxt:2:", "layer 'c' (conv)", "pad 1", "'p' with pad 2"});
  expect_refusal(
      pad + "layers { layer { name: 'c' type: 'conv' } bottom: 'p' bottom: 'b' top: 'c' }",
      {"old.prototxt:2:", "layer 'c' (conv)", "2 bottoms"});
  expect_refusal("layers { layer { name: 'p' type: 'padding' } bottom: 'a' top: 'p' top: 'q' }",
                 {"old.prototxt:1:", "layer 'p' (padding)", "2 tops"});
}

TEST(UpgradeTest, PaddingThatNobodyReadsIsToldOf) {
  const Upgraded net(
      "layers { layer { name: 'p' type: 'padding' } bottom: 'a' top: 'p' }\n"
      "layers { layer { name: 'r' type: 'relu' } bottom: 'a' top: 'r' }");
  EXPECT_EQ(net.net.layer_size(), 1);
  EXPECT_THAT(net.done.warnings,
              ElementsAre("old.prototxt:1:10: layer 'p' (padding) is left out: no layer reads its "
                          "top"));
}

TEST(UpgradeTest, SettingsWithoutEffectAreToldOf) {
  const Upgraded net(
      "layers { layer { name: 'r' type: 'relu'\n num_output: 3 pad: 0 } bottom: 'a' top: 'a' }");
  net.expect("layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }");
  EXPECT_THAT(net.done.warnings, ElementsAre("old.prototxt:2:2: layer 'r': num_output is left out: "
                                             "it has no effect on layers of type relu"));
}

TEST(UpgradeTest, WhatCannotBeUpgradedIsAnErrorAtItsPlace) {
  expect_refusal("layers { layer { name: 'a' type: 'relu' } }\n layer { name: 'b' type: 'ReLU' }",
                 {"old.prototxt:2:2", "both `layer` (line 2) and `layers` (line 1)"});
  expect_refusal(
      "layers { layer { name: 'a'\n type: 'convv' } }",
      {"old.prototxt:2:2", "layer 'a' (convv)", "no type of the V0 format", "did you mean 'conv'"});
  expect_refusal("layers { layer { name: 'a' } }", {"old.prototxt:1:", "layer 'a'", "has no type"});
  expect_refusal("layers {}\nlayers { name: 'a' }", {"old.prototxt:1:1", "has no type"});
  expect_refusal("layers { name: 'a' type: NONE }",
                 {"old.prototxt:1:20", "layer 'a'", "has no type", "CONVOLUTION"});
  expect_refusal("layers { name: 'a' layer { name: 'b' type: 'relu' } }",
                 {"old.prototxt:1:", "layer 'b' (relu)", "both in"});
}

TEST(UpgradeTest, TypesOfForksInBinaryFilesAreNamed) {
  V1LayerParameter layer;
  layer.set_name("a");
  layer.GetReflection()->MutableUnknownFields(&layer)->AddVarint(V1LayerParameter::kTypeFieldNumber,
                                                                 77);
  NetParameter net;
  *net.add_layers() = layer;
  expect_error([&] { upgrade_net(net); },
               {"layer 'a'", "number 77 of a fork", "Upgrade the net's prototxt instead",
                "load the weights"});
}

TEST(UpgradeTest, FieldsOfForksInBinaryFilesAreToldOf) {
  NetParameter net = parse<NetParameter>("layers { name: 'a' type: RELU }");
  V1LayerParameter& layer = *net.mutable_layers(0);
  layer.GetReflection()->MutableUnknownFields(&layer)->AddVarint(77, 1);
  EXPECT_THAT(upgrade_net(net).warnings,
              ElementsAre("layer 'a': 1 field of a fork, the first with number 77, is left out"));
  NetParameter v0 = parse<NetParameter>("layers { layer { name: 'a' type: 'relu' } }");
  V0LayerParameter& inner = *v0.mutable_layers(0)->mutable_layer();
  inner.GetReflection()->MutableUnknownFields(&inner)->AddVarint(78, 1);
  EXPECT_THAT(upgrade_net(v0).warnings,
              ElementsAre("layer 'a': 1 field of a fork, the first with number 78, is left out"));
}

TEST(UpgradeTest, InputsBecomeOneInputLayer) {
  Upgraded net(
      "name: 'n'\n input: 'a' input: 'b' input_shape { dim: 2 } input_shape { dim: 3 dim: 4 }\n"
      "layer { name: 'input' type: 'ReLU' bottom: 'a' top: 'c' }");
  net.expect(
      "name: 'n' layer { name: 'input_' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: "
      "2 } "
      "shape { dim: 3 dim: 4 } } } layer { name: 'input' type: 'ReLU' bottom: 'a' top: 'c' }");
  EXPECT_FALSE(net.done.is_old);  // files of all versions have it
  EXPECT_THAT(net.done.changes, ElementsAre(HasSubstr("Input layer 'input_'")));
  EXPECT_THAT(net.places(), ElementsAre("old.prototxt:2:2", "old.prototxt:3:1"));

  const std::string layer = " layer { type: 'ReLU' bottom: 'a' top: 'b' }";
  Upgraded("input: 'a'" + layer)
      .expect("layer { name: 'input' type: 'Input' top: 'a' input_param {} }" + layer);
  expect_refusal("input: 'a' input_dim: 1\n" + layer,
                 {"old.prototxt:1:", "1 input but 1 input_dim"});
  expect_refusal("input: 'a' input_shape {} input_shape {}" + layer, {"1 input but 2 input_shape"});
  expect_refusal("input: 'a' input_shape {} input_dim: 1" + layer,
                 {"both input_dim and input_shape"});
  const Upgraded none("input_dim: 1" + layer);
  none.expect(layer);
  EXPECT_THAT(none.done.warnings, ElementsAre(HasSubstr("without `input` they have no effect")));
}

TEST(UpgradeTest, TransformsMoveToTransformParam) {
  for (const std::string layer :
       {"layers { name: 'd' type: DATA", "layer { name: 'd' type: 'Data'"}) {
    const Upgraded net(
        layer +
        " data_param { source: 's' scale: 0.5 mean_file: 'm' crop_size: 3 mirror: true } }");
    net.expect(
        "layer { name: 'd' type: 'Data' data_param { source: 's' } transform_param { scale: 0.5 "
        "mean_file: 'm' crop_size: 3 mirror: true } }");
    EXPECT_TRUE(net.done.is_old);
    EXPECT_THAT(net.done.changes.back(), HasSubstr("mirror of layer 'd' moved from data_param"));
  }
  Upgraded(
      "layers { type: IMAGE_DATA image_data_param { scale: 2 crop_size: 3 } "
      "transform_param { mirror: true crop_size: 3 } }")
      .expect(
          "layer { type: 'ImageData' image_data_param {} transform_param { scale: 2 crop_size: 3 "
          "mirror: true } }");
  Upgraded(
      "layers { type: WINDOW_DATA window_data_param { scale: 2 mean_file: 'm' crop_size: 3 "
      "mirror: false } }")
      .expect(
          "layer { type: 'WindowData' window_data_param {} transform_param { scale: 2 "
          "mean_file: 'm' crop_size: 3 mirror: false } }");
  expect_refusal(
      "layers { name: 'd' type: DATA\n data_param { scale: 2 }\n transform_param { scale: 3 } }",
      {"old.prototxt:2:15", "layer 'd' (Data)", "scale 2 in data_param", "3 in transform_param"});
}

TEST(UpgradeTest, StatisticsOfBatchNormDoNotLearn) {
  const Upgraded net(
      "layer { name: 'b' type: 'BatchNorm' param { lr_mult: 1 name: 'm' } param {} param { "
      "lr_mult: 0 } }");
  net.expect(
      "layer { name: 'b' type: 'BatchNorm' param { lr_mult: 0 decay_mult: 0 name: 'm' } "
      "param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } }");
  EXPECT_THAT(net.done.changes, ElementsAre(HasSubstr("layer 'b' (BatchNorm)")));
}

TEST(UpgradeTest, WeightsOfOldLayersNeedNoType) {
  NetParameter net = parse<NetParameter>(
      "layers { name: 'a' blobs { data: 1 } }\n"
      "layers { layer { name: 'b' type: 'unknown' blobs { data: 2 } blobs { data: 3 } } }");
  upgrade_weights(net);
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layers_size(), 0);
  EXPECT_EQ(net.layer(0).name(), "a");
  EXPECT_EQ(net.layer(0).blobs(0).data(0), 1);
  EXPECT_EQ(net.layer(1).name(), "b");
  EXPECT_EQ(net.layer(1).blobs_size(), 2);
}

TEST(UpgradeSolverTest, EveryOldTypeHasItsName) {
  const auto type_of = [](const std::string& old) {
    auto solver = parse<SolverParameter>("base_lr: 1 solver_type: " + old);
    const Upgrade done = upgrade_solver(solver);
    EXPECT_TRUE(done.is_old);
    EXPECT_EQ(done.changes.size(), 1u);
    EXPECT_FALSE(solver.has_solver_type());
    return solver.type();
  };
  EXPECT_EQ(type_of("SGD"), "SGD");
  EXPECT_EQ(type_of("NESTEROV"), "Nesterov");
  EXPECT_EQ(type_of("ADAGRAD"), "AdaGrad");
  EXPECT_EQ(type_of("RMSPROP"), "RMSProp");
  EXPECT_EQ(type_of("ADADELTA"), "AdaDelta");
  EXPECT_EQ(type_of("ADAM"), "Adam");
}

TEST(UpgradeSolverTest, WhatCannotBeUpgradedIsAnErrorAtItsPlace) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    SourceMap map;
    auto solver = parse<SolverParameter>(text, &map);
    expect_error([&] { upgrade_solver(solver, map); }, parts);
  };
  refuse("type: 'Adam'\nsolver_type: SGD",
         {"old.prototxt:2:1", "type \"Adam\"", "solver_type SGD"});
  refuse("solver_type: SAG", {"old.prototxt:1:1", "SAG"});
  refuse("net_param {\n layers { name: 'a' type: NONE } }", {"old.prototxt:2:", "layer 'a'"});
}

TEST(UpgradeSolverTest, NetsInsideAreUpgraded) {
  auto solver = parse<SolverParameter>(
      "train_net_param { layers { type: RELU } } test_net_param { layer { type: 'ReLU' } } "
      "test_net_param { layers { layer { type: 'relu' } } }");
  const Upgrade done = upgrade_solver(solver);
  EXPECT_EQ(solver.train_net_param().layer(0).type(), "ReLU");
  EXPECT_EQ(solver.test_net_param(1).layer(0).type(), "ReLU");
  EXPECT_THAT(done.changes, ElementsAre(HasSubstr("train_net_param: 1 layer of the V1"),
                                        HasSubstr("test_net_param[1]: 1 layer of the V0")));
  auto current = parse<SolverParameter>("type: 'SGD' net: 'a'");
  EXPECT_THAT(upgrade_solver(current).changes, IsEmpty());
}

}  // namespace
}  // namespace crema
