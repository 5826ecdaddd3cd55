// From a prototxt to connected layers: names, states, arities, and what is said when they are
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/text_format.hpp"
#include "net/plan.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

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
      {"1 top but", "2 loss_weight"});
  expect_net_error(kData + R"(layer { name: "r" type: "ReLU" bottom: "data" top: "a"
                              propagate_down: true propagate_down: true })",
                   {"1 bottom but", "2 propagate_down"});
}

TEST(Graph, SaysWhichTypeIsUnknown) {
  expect_net_error(kData + R"(layer { name: "r" type: "Relu" bottom: "data" top: "a" })",
                   {"'Relu'", "'ReLU'"});
}

// Of an old model all that is missing is told at once, the filtered layers aside.
TEST(Graph, NamesAllTypesThatAreMissing) {
  const TempFolder folder;
  const std::string path = folder.write("old.prototxt", R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 } } }
layer { name: "wrong" type: "ReLU" bottom: "none" top: "y" }
layer { name: "nn" type: "Wavelet" bottom: "data" top: "a" }
layer { name: "r" type: "Relu" bottom: "a" top: "b" }
layer { name: "nn2" type: "Wavelet" bottom: "b" top: "c" }
layer { name: "t" type: "Fourier" bottom: "c" top: "d" include { phase: TEST } })");
  Context context;
  const auto message = [&](const NetOptions& options) -> std::string {
    try {
      Net(path, context, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string list =
      text(path, ":4:1: 2 layer types of the net are unknown:\n  ", path,
           ":4:1: layer 'nn' (Wavelet): there is no layer type 'Wavelet'; if a plug-in brings it, "
           "load that with --plugin=FILE or crema::load_plugin() (2 such layers)\n  ",
           path, ":5:1: layer 'r' (Relu): there is no layer type 'Relu'; did you mean 'ReLU'?");
  EXPECT_EQ(message({}), list);
  EXPECT_THAT(message({.phase = Phase::test}), ::testing::HasSubstr("3 layer types"));
  EXPECT_THAT(message({.phase = Phase::test}), ::testing::HasSubstr(path + ":7:1: layer 't'"));
  expect_net_error(kData + R"(layer { name: "a" type: "Wavelet" } layer { name: "b" })",
                   {"2 layer types", "layer 'a' (Wavelet)", "layer 'b': the layer has no type"});
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

TEST(Graph, AnInputWithoutAShapeIsBlamedItself) {
  const TempFolder folder;
  const auto expect_blame = [&](const std::string& text,
                                std::initializer_list<std::string_view> parts) {
    const std::string path = folder.write("net.prototxt", text);
    Context context;
    expect_error([&] { Net(path, context, {}); }, parts);
  };
  const std::string ip =
      "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'ip' inner_product_param { "
      "num_output: 2 } }";
  expect_blame("name: 'n'\nlayer { name: 'in' type: 'Input' top: 'x' }\n" + ip,
               {"net.prototxt:2:1: layer 'in' (Input): has no shape", "layer 'ip' (InnerProduct)",
                "add input_param { shape {"});
  expect_blame("name: 'n'\ninput: 'x'\n" + ip,
               {"net.prototxt:2:1: layer 'input' (Input): has no shape"});
  // What has its shape is not blamed for another mistake.
  expect_blame("input: 'x' input_shape { dim: 2 dim: 3 }\n" + ip +
                   "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'x' }",
               {"net.prototxt:3", "layer 'l' (EuclideanLoss)"});
}

TEST(Graph, ALayerThatItsRulesLeaveOutIsNamed) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "a" type: "ReLU" bottom: "x" top: "a" include { phase: TEST } include { stage: "s" not_stage: "t" } }
layer { name: "b" type: "ReLU" bottom: "x" top: "b" exclude { phase: TEST } exclude { phase: TRAIN } }
)";
  expect_net_error(net + R"(layer { name: "r" type: "ReLU" bottom: "a" top: "y" })",
                   {"layer 'r' (ReLU): bottom 'a' is unknown: layer 'a', which makes it, is left "
                    "out by its rule include { phase: TEST } include { stage: \"s\" not_stage: "
                    "\"t\" }"});
  expect_net_error(
      net + R"(layer { name: "r" type: "ReLU" bottom: "b" top: "y" })",
      {"layer 'b', which makes it, is left out by its rule exclude { phase: TRAIN };"});
  const TempFolder folder;
  const std::string path =
      folder.write("net.prototxt", net + "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'y' }");
  Context context;
  expect_error([&] { Net(path, context, {}); }, {path + ":5:1", "layer 'a' (line 3), which"});
  EXPECT_NO_THROW(Net(path, context, {.phase = Phase::test}));
}

TEST(Graph, OldNetsAreBuiltAndErrorsKeepTheirPlaces) {
  const TempFolder folder;
  const std::string net =
      "input: 'x' input_dim: 1 input_dim: 2 input_dim: 6 input_dim: 6\n"
      "layers { layer { name: 'pad' type: 'padding' pad: 1 } bottom: 'x' top: 'pad' }\n"
      "layers { layer { name: 'conv' type: 'conv' num_output: 3 kernelsize: 3 }\n"
      "         bottom: 'pad' top: 'conv' }\n";
  const std::string path = folder.write("net.prototxt", net);
  Context context;
  const Net built(path, context, {.phase = Phase::test});
  const std::vector<std::string>& notes = built.notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::HasSubstr("crema upgrade-net-proto-text " + path));
  EXPECT_EQ(built.layers().size(), 2u);
  folder.write("net.prototxt", net + "layers { name: 'r' type: RELU bottom: 'y' top: 'r' }");
  expect_error([&] { Net(path, context, {}); },
               {path + ":5:1: layer 'r' (ReLU): bottom 'y' is not made"});
  folder.write("net.prototxt", net + "layers { name: 'r' type: RELU bottom: 'pad' top: 'r' }");
  expect_error([&] { Net(path, context, {}); }, {path + ":5", "padding layer 'pad'"});
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

TEST(Filter, TheNetsOwnStateAddsToTheCallers) {
  const std::string text = R"(state { level: 2 stage: "deploy" })" + kData + R"(
layer { name: "head" type: "ReLU" bottom: "data" top: "a" include { stage: "deploy" } }
layer { name: "mine" type: "ReLU" bottom: "data" top: "b" include { stage: "mine" } }
layer { name: "two" type: "ReLU" bottom: "data" top: "c" include { min_level: 2 max_level: 2 } }
layer { name: "three" type: "ReLU" bottom: "data" top: "d" include { min_level: 3 } }
)";
  EXPECT_THAT(names_in(text, {}), ElementsAre("data", "head", "two"));
  EXPECT_THAT(names_in(text, {.level = 3, .stages = {"mine"}}),
              ElementsAre("data", "head", "mine", "three"));
}

std::vector<std::string> warnings_of(const std::string& text, const NetOptions& options = {}) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  Net(net_param(text), context, options);
  return warnings;
}

TEST(Filter, StagesThatNoRuleNamesAreTold) {
  const std::string text = kData + R"(
layer { name: "a" type: "ReLU" bottom: "data" top: "a" include { phase: TEST stage: "deploy" } }
layer { name: "b" type: "ReLU" bottom: "data" top: "b" exclude { not_stage: "mine" } })";
  EXPECT_THAT(warnings_of(text, {.stages = {"deploy", "mine"}}), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(text, {.stages = {"depoy", "mine"}}),
              ElementsAre(::testing::AllOf(::testing::HasSubstr("stage 'depoy' has no effect"),
                                           ::testing::HasSubstr("did you mean 'deploy'?"))));
  EXPECT_THAT(warnings_of("state { stage: 'own' }" + kData),
              ElementsAre(::testing::HasSubstr("stage 'own'")));
}

TEST(Graph, SettingsWithoutEffectAreToldOnce) {
  EXPECT_THAT(warnings_of(kData), ::testing::IsEmpty());
  const auto warnings = warnings_of(R"(eltwise_mem_sharing: false default_forward_type: FLOAT16
bn_stats_batch_size: 0)" + kData + R"(
layer { name: "r" type: "ReLU" bottom: "data" top: "r" forward_type: FLOAT16 backward_type: FLOAT }
layer { name: "s" type: "ReLU" bottom: "data" top: "s" forward_type: FLOAT16 })");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("eltwise_mem_sharing"));
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("default_forward_type"));
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("forward_type (layer 'r' and 1 more)"));
  // What asks for the default loses nothing.
  EXPECT_THAT(warnings[0], ::testing::Not(::testing::HasSubstr("bn_stats_batch_size")));
  EXPECT_THAT(warnings[0], ::testing::Not(::testing::HasSubstr("backward_type")));
}

TEST(Graph, SettingsWithEffectAreNotTold) {
  EXPECT_THAT(warnings_of("precision: BF16" + kData), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(kData + R"(
layer { name: "s" type: "Softmax" bottom: "data" top: "s" softmax_param { axis: 1 } })"),
              ::testing::IsEmpty());
  // Settings of another type that the type reads.
  EXPECT_THAT(warnings_of(kData + R"(
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "i" type: "InnerProduct" bottom: "data" top: "i"
        inner_product_param { num_output: 2 } }
layer { name: "s" type: "SoftmaxWithLoss" bottom: "i" bottom: "label" top: "s"
        softmax_param { axis: 1 } })"),
              ::testing::IsEmpty());
}

TEST(Graph, FillersWithoutATypeAreTold) {
  const auto warnings = [](const std::string& filler) {
    return warnings_of(kData + "layer { name: 'i' type: 'InnerProduct' bottom: 'data' top: 'i' " +
                       "inner_product_param { num_output: 2 weight_filler { " + filler + " } } }");
  };
  EXPECT_THAT(warnings("std: 0.01"),
              ElementsAre(::testing::HasSubstr("weight_filler (layer 'i') has no type")));
  EXPECT_THAT(warnings("value: 0.01"), ::testing::IsEmpty());
  EXPECT_THAT(warnings("type: 'gaussian' std: 0.01"), ::testing::IsEmpty());
  const std::string product =
      " type: 'InnerProduct' bottom: 'data' "
      "inner_product_param { num_output: 2 weight_filler { std: 0.01 } } } ";
  EXPECT_THAT(warnings_of(kData + "layer { name: 'i' top: 'i'" + product +
                          "layer { name: 'j' top: 'j'" + product),
              ElementsAre(::testing::HasSubstr("weight_filler (layer 'i' and 1 more)")));
}

TEST(Graph, ALayerMayHaveAPhaseOfItsOwn) {
  Context context;
  const Net net(net_param(kData + R"(
layer { name: "of_net" type: "Dropout" bottom: "data" top: "a" }
layer { name: "own" type: "Dropout" bottom: "data" top: "b" phase: TEST })"),
                context, {.phase = Phase::train});
  EXPECT_EQ(net.layers()[1]->phase(), Phase::train);
  EXPECT_EQ(net.layers()[2]->phase(), Phase::test);
  NetParameter saved;
  net.save(saved);
  const Net again(saved, context, {.phase = Phase::test});
  EXPECT_EQ(again.layers()[1]->phase(), Phase::test);
  const Net trains(saved, context, {.phase = Phase::train});
  EXPECT_EQ(trains.layers()[2]->phase(), Phase::test);
}

TEST(Graph, SettingsOfAnotherTypeAreTold) {
  const auto warnings = warnings_of(kData + R"(
layer { name: "r" type: "ReLU" bottom: "data" top: "r" relu_param {} concat_param { axis: 2 } }
layer { name: "s" type: "ReLU" bottom: "data" top: "s" concat_param { axis: 2 } })");
  EXPECT_THAT(warnings, ElementsAre(::testing::HasSubstr(
                            "concat_param (layer 'r' and 1 more) has no effect on layers of type "
                            "ReLU")));
  // Losses without labels, except for those that read it.
  const auto loss = [](const std::string& type) {
    return warnings_of(kData + text("layer { name: 'd' type: 'Power' bottom: 'data' top: 'd' } ",
                                    "layer { name: 'l' type: '", type,
                                    "' bottom: 'data' bottom: 'd' top: 'l' ",
                                    "loss_param { normalization: NONE } }"));
  };
  for (const char* type : {"EuclideanLoss", "L1Loss", "SmoothL1Loss", "DiceLoss"})
    EXPECT_THAT(loss(type), ElementsAre(::testing::HasSubstr("loss_param (layer 'l')"))) << type;
  EXPECT_THAT(loss("SigmoidCrossEntropyLoss"), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(kData + R"(
layer { name: "l" type: "SmoothL1LossOHEM" bottom: "data" bottom: "data" top: "l"
        loss_param { weight_by_label_freqs: true class_weighting: 2 } })"),
              ElementsAre(::testing::HasSubstr("layer 'l': class_weighting")));
  for (const char* type : {"HingeLoss", "SigmoidCrossEntropyLoss"}) {
    expect_error(
        [&] {
          Context context;
          Net(net_param(
                  text(kData, "layer { name: 'l' type: '", type,
                       "' bottom: 'data' bottom: 'data' loss_param { label_smoothing: 0.3 } }")),
              context);
        },
        {"label_smoothing 0.3", type, "remove it"});
  }
}

TEST(Graph, ErrorsOfEveryPassNameFileLineAndLayer) {
  TempFolder folder;
  auto expect_at = [&](const std::string& layer, const std::string& line,
                       std::initializer_list<std::string_view> parts) {
    const std::string path = folder.write("net.prototxt", "name: 'n'\n" + kData + layer);
    Context context;
    expect_error([&] { Net(path, context, {}); }, parts);
    expect_error([&] { Net(path, context, {}); }, {path + line});
  };
  for (const std::string wrong : {"lr_mult: nan", "lr_mult: inf", "decay_mult: -1"}) {
    expect_at("layer { name: 'i' type: 'InnerProduct' bottom: 'data' top: 'i' param { " + wrong +
                  " } inner_product_param { num_output: 1 } }",
              "", {"layer 'i' (InnerProduct)", wrong.substr(0, wrong.find(':')), "parameter 0"});
  }
  expect_at(
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a'\n"
      "include { phase: TRAIN } exclude { phase: TEST } }",
      ":4", {"layer 'r' (ReLU)", "include and exclude"});
  expect_at(
      "\nlayer { name: 'up' type: 'InnerProduct' bottom: 'data' top: 'a'\n"
      "inner_product_param { num_output: 2 weight_filler { type: 'bilinear' } } }",
      ":5", {"layer 'up' (InnerProduct)", "bilinear"});
  expect_at(
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' loss_weight: 1 loss_weight: 1 }",
      ":4", {"layer 'r' (ReLU)", "loss_weight"});
  const std::string path = folder.write("net.prototxt", kData);
  Context context;
  expect_error([&] { Net(path, context, {.keep = {"nothing"}}); }, {path, "to keep"});
}

TEST(Graph, AMessageOfATextKeepsItsPlaces) {
  const std::string text =
      "net_param {\n" + kData + "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }\n}\n";
  SolverParameter solver;
  SourceMap map;
  parse_text_proto(text, "solver.prototxt", solver, &map);
  Context context;
  expect_error([&] { Net(solver.net_param(), map.nested("net_param"), context); },
               {"solver.prototxt:4", "layer 'r' (ReLU)", "bottom 'x'"});
}

TEST(Graph, LayersOfOneNameAreToldApart) {
  Context context;
  Net net(net_param(kData + R"(
layer { type: "InnerProduct" bottom: "data" top: "a"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { type: "InnerProduct" bottom: "data" top: "b"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { type: "Dropout" bottom: "data" top: "c" }
layer { name: "#2" type: "Dropout" bottom: "data" top: "d" }
layer { type: "EuclideanLoss" bottom: "a" bottom: "b" }
layer { type: "EuclideanLoss" bottom: "a" bottom: "a" })"),
          context, {});
  EXPECT_THAT(layer_names(net), ElementsAre("data", "", "#3", "#4", "#2", "#5", "#6"));
  EXPECT_NE(test::values_of(net.layer("").params()[0]->data),
            test::values_of(net.layer("#3").params()[0]->data));
  net.input("data").fill(1);
  net.forward();
  EXPECT_NE(test::values_of(net.output("c")), test::values_of(net.output("d")));
  const std::vector<std::string>& outputs = net.outputs();
  EXPECT_EQ(std::set<std::string>(outputs.begin(), outputs.end()).size(), outputs.size());
}

TEST(Graph, IsReadableFromOutside) {
  Context context({.tune = false});
  Net net(net_param(R"(
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 32 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 32 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "pool" type: "Pooling" bottom: "y" top: "z" pooling_param { kernel_size: 2 } })"),
          context, {});
  const std::vector<NetValue> values = net.values();
  std::vector<std::string> layers;
  for (size_t n = 0; n < net.steps().size(); ++n) {
    const NetStep& step = net.steps()[n];
    if (step.layer >= 0) layers.push_back(step.type);
    for (const int top : step.tops) {
      EXPECT_EQ(values.at(static_cast<size_t>(top)).producer, static_cast<int>(n));
    }
    for (const int bottom : step.bottoms) {
      const NetValue& value = values.at(static_cast<size_t>(bottom));
      EXPECT_EQ(std::count(value.readers.begin(), value.readers.end(), static_cast<int>(n)), 1);
      EXPECT_LT(value.producer, static_cast<int>(n)) << "values are made before they are read";
    }
  }
  EXPECT_THAT(layers, ElementsAre("Input", "Convolution", "Pooling")) << "ReLU was fused";
  // What the caller sees is contiguous, and there once, whatever layouts lie between.
  int kept = 0;
  for (const NetValue& value : values) {
    if (!value.kept) continue;
    ++kept;
    EXPECT_EQ(value.layout.format, Format::contiguous) << value.name;
    EXPECT_EQ(value.shape, net.blob(value.name).shape());
  }
  EXPECT_EQ(kept, 2) << "x and z";
}

// The numbers of a layer whose name is its own are those of that name, whatever else is there.
TEST(Graph, TheFirstOfANameDrawsTheNamesNumbers) {
  const std::string layer = R"(layer { name: "ip" type: "InnerProduct" bottom: "data" top: "TOP"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } })";
  auto with_top = [&](const std::string& top) {
    std::string text = layer;
    return text.replace(text.find("TOP"), 3, top);
  };
  Context context;
  Net one(net_param(kData + with_top("a")), context, {});
  Net two(net_param(kData + with_top("a") + with_top("b")), context, {});
  EXPECT_EQ(test::values_of(one.layer("ip").params()[0]->data),
            test::values_of(two.layer("ip").params()[0]->data));
}

}  // namespace
}  // namespace crema
