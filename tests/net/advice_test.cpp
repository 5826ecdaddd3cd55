// What a net says of rules, of places of layers, of types, engines and fillers that its author
// likely did not mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "crema/net.hpp"
#include "crema/registry.hpp"
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

std::vector<std::string> warnings_of(const std::string& text, const NetOptions& options = {}) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  Net(net_param(text), context, options);
  return warnings;
}

// Nets whose data are of one phase or stage, run without it.
TEST(Advice, WhatSelectsALayerThatIsLeftOutIsNamed) {
  const auto error = [](const std::string& rules, const NetOptions& options) -> std::string {
    const std::string text =
        "layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: "
        "2 dim: 3 } } " +
        rules +
        " }\nlayer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }\n"
        "layer { name: 'other' type: 'Input' top: 'z' input_param { shape { "
        "dim: 2 } } }";
    Context context;
    try {
      Net(net_param(text), context, options);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  const auto has = [](const std::string& text) { return ::testing::HasSubstr(text); };
  const NetOptions train{.phase = Phase::train}, test{.phase = Phase::test};
  EXPECT_THAT(error("include { phase: TEST }", train),
              has("layer 'd', which makes it, is left out by its rule include { phase: TEST } "
                  "(selected by --phase TEST); select it, change the rule, or add one to this"));
  EXPECT_THAT(error("exclude { phase: TEST }", test), has("(selected by --phase TRAIN)"));
  EXPECT_THAT(error("include { stage: 'val' }", test),
              has("(selected by --stage val, in a solver by test_state { stage: \"val\" })"));
  EXPECT_THAT(
      error("include { stage: 'a' stage: 'b' }", train),
      has("(selected by --stage a,b, in a solver by train_state { stage: \"a\" stage: \"b\" })"));
  EXPECT_THAT(error("include { phase: TEST stage: 'val' }", train),
              has("(selected by --phase TEST --stage val)"));
  EXPECT_THAT(error("include { min_level: 2 }", test),
              has("(selected by --level 2, in a solver by test_state { level: 2 })"));
  // --stage of `crema train` is that of the training net.
  Context context;
  Net training(
      net_param("layer { name: 'i' type: 'Input' top: 'i' input_param { shape { dim: 1 } } "
                "}"),
      context, train);
  NetOptions in_training = test;
  in_training.share_params_with = &training;
  EXPECT_THAT(error("include { stage: 'val' }", in_training),
              has("(selected by test_state { stage: \"val\" })"));
  EXPECT_THAT(error("exclude { not_stage: 'full' }", train), has("--stage full"));
  // The nearest way of several.
  EXPECT_THAT(error("include { phase: TEST stage: 'a' stage: 'b' } include { stage: 'c' }", train),
              has("--stage c,"));
  // A stage that is set and must not be.
  EXPECT_THAT(error("exclude { stage: 'quick' }", {.phase = Phase::train, .stages = {"quick"}}),
              has("(selected without stage 'quick')"));
  EXPECT_THAT(error("include { stage: 'a' not_stage: 'a' }", train),
              ::testing::AllOf(has("not_stage: \"a\" };"), ::testing::Not(has("selected"))));
}

TEST(Advice, ANetWithoutLayersNamesWhatSelectsOne) {
  Context context;
  expect_error(
      [&] {
        Net(net_param("layer { name: 'd' type: 'Input' top: 'x' include { stage: 'deploy' } }"),
            context, {});
      },
      {"the net has no layers in phase TRAIN", "layer 'd'", "--stage deploy"});
}

TEST(Advice, ALaterLayerThatMakesABottomIsNamed) {
  const TempFolder folder;
  const std::string in =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n";
  const auto expect = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    const std::string path = folder.write("net.prototxt", in + text);
    Context context;
    expect_error([&] { Net(path, context, {}); }, parts);
  };
  expect(
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'y' }\n"
      "layer { name: 'again' type: 'ReLU' bottom: 'a' top: 'a' }\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'a' }\n",
      {"net.prototxt:2", "layer 'r' (ReLU)",
       "bottom 'a' is made by layer 'a' (line 4), which comes later; move that layer before"});
  expect(
      "layer { name: 'r' type: 'Eltwise' bottom: 'x' bottom: 'a' top: 'y' }\n"
      "layer { name: 's' type: 'ReLU' bottom: 'y' top: 's' }\n"
      "layer { name: 'a' type: 'ReLU' bottom: 's' top: 'a' }\n",
      {"bottom 'a' is made by layer 'a' (line 4)", "depends on this layer", "loop"});
  // Its own top is none that it can read.
  expect("layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'y' }\n",
         {"bottom 'y' is not made by any layer before"});
}

TEST(Advice, TypesThatDifferInCaseOrUnderscoresAreFound) {
  const auto expect = [](const std::string& type, const std::string& meant) {
    Context context;
    expect_error(
        [&] { Net(net_param(kData + "layer { name: 'a' type: '" + type + "' }"), context, {}); },
        {"there is no layer type '" + type + "'; did you mean '" + meant + "'?"});
  };
  expect("Lstm", "LSTM");
  expect("gru", "GRU");
  expect("relu", "ReLU");
  expect("RELU", "ReLU");
  expect("batchnorm", "BatchNorm");
  expect("batch_norm", "BatchNorm");
  expect("Batch-Norm", "BatchNorm");
  expect("B_A_T_C_H_N_O_R_M", "BatchNorm");
  expect("INNER_PRODUCT", "InnerProduct");
  expect("softmax_with_loss", "SoftmaxWithLoss");
  expect("pooling", "Pooling");
  expect("p_re_lu", "PReLU");
  expect("hdf5_data", "HDF5Data");
}

// Rules that no phase, level and stages fulfil.
TEST(Advice, RulesThatCanNeverHoldAreTold) {
  const auto of = [](const std::string& rules) {
    return warnings_of(kData + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' " + rules +
                       " }");
  };
  const auto says = [](const std::string& text) {
    return ElementsAre(
        ::testing::AllOf(::testing::HasSubstr("layer 'r'"), ::testing::HasSubstr(text)));
  };
  EXPECT_THAT(of("include { min_level: 3 max_level: 1 }"),
              says("its rule include { min_level: 3 max_level: 1 } can never hold"));
  EXPECT_THAT(of("include { stage: 'a' not_stage: 'a' }"),
              says("its rule include { stage: \"a\" not_stage: \"a\" } can never hold"));
  EXPECT_THAT(of("include { phase: TRAIN } include { phase: TEST stage: 'a' not_stage: 'a' }"),
              says("stage: \"a\" not_stage: \"a\" } can never hold"));
  EXPECT_THAT(of("exclude { min_level: 3 max_level: 2 }"),
              says("can never hold and has no effect"));
  EXPECT_THAT(of("exclude { phase: TRAIN } exclude { phase: TEST }"),
              says("its rules exclude { phase: TRAIN } exclude { phase: TEST } exclude it from "
                   "every net"));
  EXPECT_THAT(of("exclude { stage: 'a' } exclude { not_stage: 'a' }"), says("from every net"));
  EXPECT_THAT(of("exclude { max_level: 3 } exclude { min_level: 4 }"), says("from every net"));
  EXPECT_THAT(of("phase: TEST include { phase: TRAIN }"),
              says("it has phase: TEST, but its rules take it into nets of phase TRAIN alone"));
  EXPECT_THAT(of("phase: TRAIN exclude { phase: TRAIN }"), says("it has phase: TRAIN"));

  for (const char* fine :
       {"include { min_level: 3 max_level: 3 }", "include { stage: 'a' not_stage: 'b' }",
        "phase: TEST", "phase: TEST include { phase: TEST }", "phase: TEST include { stage: 'a' }",
        "include { phase: TRAIN } include { phase: TEST }", "exclude { phase: TEST }",
        "exclude { max_level: 3 } exclude { min_level: 5 }", "exclude { stage: 'a' }"}) {
    EXPECT_THAT(of(fine), ::testing::IsEmpty()) << fine;
  }
}

// Hints of other programs, as at the head of a net and in convolution_param.
TEST(Advice, PublishedEnginesOfALayerAreHints) {
  const auto of = [](const std::string& engines) {
    return warnings_of(kData + "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' " +
                       engines + " convolution_param { num_output: 2 kernel_size: 3 } }");
  };
  for (const char* engine : {"DEFAULT", "CAFFE", "CUDNN", "MKL2017", "MKLDNN", "MKLDNN:CPU,FPGA",
                             "MKL2017:CAFFE", "MKLDNN:DLA;CAFFE"}) {
    EXPECT_THAT(of(text("engine: '", engine, "'")),
                ElementsAre(::testing::HasSubstr(
                    "settings of the net that have no effect: engine (layer 'c')")))
        << engine;
  }
  EXPECT_THAT(of("engine: 'reference'"), ::testing::IsEmpty());
  for (const char* engine : {"refernce", "MKL", "CPU", "MKLDNN,nothing", ":", "mkl2017 "}) {
    expect_error([&] { of(text("engine: '", engine, "'")); },
                 {text("there is no engine '", engine, "' for Convolution")});
  }
  // Only Crema's own names force one.
  Context context({.engine = "reference"});
  const Net net(net_param(kData + "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' "
                                  "engine: 'CUDNN' convolution_param { num_output: 2 "
                                  "kernel_size: 3 } }"),
                context, {});
  EXPECT_EQ(std::ranges::find(net.steps(), 1, &NetStep::layer)->engine, "reference");
}

TEST(Advice, PublishedEnginesLeaveTheEngineOfTheContext) {
  for (const std::string type : {"Convolution", "InnerProduct"}) {
    const std::string settings = type == "Convolution"
                                     ? "convolution_param { num_output: 2 kernel_size: 3 }"
                                     : "inner_product_param { num_output: 2 }";
    for (const EngineEntry* entry : Registry::instance().engines(type, DeviceType::cpu)) {
      const auto engine_of = [&](const std::string& hint) {
        Context context({.engine = entry->name});
        const Net net(net_param(text(kData, "layer { name: 'l' type: '", type,
                                     "' bottom: 'data' top: 'l' ", hint, settings, " }")),
                      context, {});
        return std::ranges::find(net.steps(), 1, &NetStep::layer)->engine;
      };
      std::string without;
      try {
        without = engine_of("");
      } catch (const Error&) {
        continue;  // the engine cannot run on this machine
      }
      EXPECT_EQ(without, entry->name) << type;
      EXPECT_EQ(engine_of("engine: 'MKL2017' "), without) << type;
      EXPECT_EQ(engine_of("engine: 'CAFFE' "), without) << type;
    }
  }
}

TEST(Advice, BilinearWeightsThatMixChannelsAreTold) {
  const auto of = [](const std::string& type, const std::string& settings) {
    return warnings_of(kData + "layer { name: 'up' type: '" + type + "' bottom: 'data' top: 'up' " +
                       "convolution_param { kernel_size: 4 stride: 2 pad: 1 bias_term: false " +
                       settings + " } }");
  };
  const std::string bilinear = "weight_filler { type: 'bilinear' } ";
  EXPECT_THAT(of("Deconvolution", bilinear + "num_output: 3"),
              ElementsAre(::testing::AllOf(
                  ::testing::HasSubstr("layer 'up': weight_filler { type: \"bilinear\" } with "
                                       "group: 1 makes every output the sum of 3"),
                  ::testing::HasSubstr("set group: 3 and num_output: 3"))));
  EXPECT_THAT(of("Convolution", bilinear + "num_output: 2"), ::testing::SizeIs(1));
  EXPECT_THAT(of("Deconvolution", bilinear + "num_output: 3 group: 3"), ::testing::IsEmpty());
  EXPECT_THAT(of("Convolution", bilinear + "num_output: 3 group: 3"), ::testing::IsEmpty());
  EXPECT_THAT(of("Deconvolution", "weight_filler { type: 'xavier' } num_output: 3"),
              ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(R"(
layer { name: "grey" type: "Input" top: "grey" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }
layer { name: "up" type: "Deconvolution" bottom: "grey" top: "up" convolution_param {
        num_output: 3 kernel_size: 4 stride: 2 weight_filler { type: "bilinear" } } })"),
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace crema
