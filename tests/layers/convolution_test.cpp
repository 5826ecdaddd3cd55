#include "layers/convolution/convolution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/unfold.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Sums of up to some thousand products of numbers below 1, in f32.
constexpr Tolerance kF32{.absolute = 1e-4, .relative = 2e-5};

LayerCase make(const std::string& settings, Shape bottom, const std::string& more = "") {
  return {.layer = text("layer { type: \"Convolution\" ", more, " convolution_param { ", settings,
                        " weight_filler { type: \"uniform\" min: -0.5 max: 0.5 }"
                        " bias_filler { type: \"uniform\" min: -1 max: 1 } } }"),
          .bottoms = {uniform(std::move(bottom))}};
}

Shape top_shape(const LayerCase& layer_case) {
  LayerRun run(layer_case);
  return run.top_blob(0).shape();
}

/// The definition, written as loops over everything.
std::vector<double> by_definition(LayerRun& run, const ConvolutionGeometry& g) {
  const std::vector<double>&x = run.bottom_values(0), &w = run.param_values(0);
  const int64_t seen = g.channels / g.groups, group_outputs = g.outputs / g.groups;
  const int64_t positions = Shape(g.output).count(), taps = Shape(g.kernel).count();
  const int64_t pixels = Shape(g.input).count();
  // Number of the input element of a channel that tap t meets at position p; -1 in the padding.
  const auto pixel = [&](int64_t p, int64_t t) {
    int64_t number = 0, step = 1;
    for (size_t axis = g.kernel.size(); axis-- > 0;) {
      const int64_t place =
          p % g.output[axis] * g.stride[axis] - g.pad[axis] + t % g.kernel[axis] * g.dilation[axis];
      if (place < 0 || place >= g.input[axis]) return int64_t{-1};
      number += place * step;
      step *= g.input[axis];
      p /= g.output[axis];
      t /= g.kernel[axis];
    }
    return number;
  };
  std::vector<double> y;
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t o = 0; o < g.outputs; ++o) {
      for (int64_t p = 0; p < positions; ++p) {
        double sum = g.bias ? run.param_values(1)[static_cast<size_t>(o)] : 0;
        for (int64_t c = 0; c < seen; ++c) {
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t from = pixel(p, t);
            if (from < 0) continue;
            const int64_t channel = n * g.channels + o / group_outputs * seen + c;
            sum += w[static_cast<size_t>((o * seen + c) * taps + t)] *
                   x[static_cast<size_t>(channel * pixels + from)];
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

struct Setting {
  const char* name;
  const char* settings;
  std::vector<int64_t> bottom;
  /// Whether engines beside the reference take it.
  bool fast = true;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::string name_of(const ::testing::TestParamInfo<Setting>& info) { return info.param.name; }

class ConvolutionEngines : public ::testing::TestWithParam<Setting> {
 protected:
  LayerCase layer_case() const { return make(GetParam().settings, Shape(GetParam().bottom)); }
};

class Convolution : public ConvolutionEngines {};

TEST_P(Convolution, FollowsTheDefinition) {
  LayerRun run(layer_case(), {.dtype = DType::f64});
  run.forward();
  const auto& layer = dynamic_cast<ConvolutionLayer&>(run.layer());
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-12), by_definition(run, layer.geometry())));
}

TEST_P(Convolution, GradientsAreTheDerivatives) { check_gradients(layer_case()); }

/// Engines that do not take the layer. Those for special problems may refuse, the others may not
/// unless the setting says so.
std::vector<std::string> refusing(const LayerCase& layer_case, bool fast) {
  std::vector<std::string> names;
  for (const EngineEntry* entry : Registry::instance().engines("Convolution", DeviceType::cpu)) {
    const bool special = entry->name != "tuned" && entry->name != "onednn";
    bool refuses = !fast;
    if (fast && special) {
      try {
        LayerRun(layer_case, {.engine = entry->name});
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("refuses")) << entry->name;
        refuses = true;
      }
    }
    if (refuses) names.push_back(entry->name);
  }
  return names;
}

TEST_P(ConvolutionEngines, AgreeWithTheReference) {
  check_engines(layer_case(), kF32, refusing(layer_case(), GetParam().fast));
}

const Setting kSmall[] = {
    {"plain", "num_output: 4 kernel_size: 3", {2, 3, 6, 5}},
    {"pad", "num_output: 5 kernel_size: 3 pad: 1", {2, 3, 5, 5}},
    {"pad_beyond_kernel", "num_output: 3 kernel_size: 2 pad: 3", {1, 2, 3, 3}},
    {"stride", "num_output: 4 kernel_size: 3 stride: 2", {2, 3, 8, 7}},
    {"stride_beyond_kernel", "num_output: 4 kernel_size: 1 stride: 3", {2, 5, 8, 7}},
    {"dilation", "num_output: 4 kernel_size: 3 dilation: 2 pad: 2", {2, 3, 7, 6}},
    {"group", "num_output: 6 kernel_size: 3 group: 2 pad: 1", {2, 4, 5, 6}},
    {"depthwise", "num_output: 8 kernel_size: 3 group: 8 pad: 1", {2, 8, 5, 6}},
    {"depthwise_twice", "num_output: 8 kernel_size: 3 group: 4", {2, 4, 5, 6}},
    {"pointwise", "num_output: 7 kernel_size: 1", {3, 5, 4, 3}},
    {"pointwise_padded", "num_output: 7 kernel_size: 1 pad: 1", {2, 5, 4, 3}},
    {"no_bias", "num_output: 4 kernel_size: 3 bias_term: false", {2, 3, 6, 5}},
    {"by_axes", "num_output: 4 kernel_h: 2 kernel_w: 3 stride_h: 2 pad_w: 2", {2, 3, 6, 5}},
    {"one_an_axis",
     "num_output: 3 kernel_size: 3 kernel_size: 1 pad: 0 pad: 1 stride: 1 stride: 2 "
     "dilation: 2 dilation: 1",
     {2, 3, 7, 6}},
    {"whole_image", "num_output: 9 kernel_h: 4 kernel_w: 5", {3, 3, 4, 5}},
    {"sequence", "num_output: 4 kernel_size: 3 pad: 1 stride: 2", {2, 3, 9}},
    {"volume", "num_output: 3 kernel_size: 2 pad: 1", {1, 2, 3, 4, 3}},
    {"volume_by_axes",
     "num_output: 3 kernel_size: 3 kernel_size: 2 kernel_size: 1 stride: 1 stride: 2 stride: 1 "
     "pad: 1 pad: 0 pad: 0",
     {1, 2, 4, 5, 3}},
    {"four_spatial_axes", "num_output: 2 kernel_size: 2", {1, 2, 3, 2, 3, 2}, false},
    {"no_spatial_axis", "num_output: 4", {3, 5}, false},
    {"channels_last_axis", "num_output: 3 axis: -1", {2, 2, 2, 3}, false},
    {"leading_axes", "num_output: 3 axis: 2 kernel_size: 2", {2, 2, 3, 4, 3}, false},
    {"nd_code", "num_output: 4 kernel_size: 3 force_nd_im2col: true", {1, 3, 5, 5}},
};
INSTANTIATE_TEST_SUITE_P(Small, Convolution, ::testing::ValuesIn(kSmall), name_of);
INSTANTIATE_TEST_SUITE_P(Small, ConvolutionEngines, ::testing::ValuesIn(kSmall), name_of);

// Sizes at which engines leave their simplest paths: several blocks of channels, tails of them,
// rows longer than a tile, more images than threads.
const Setting kLarger[] = {
    {"blocks", "num_output: 32 kernel_size: 3 pad: 1", {2, 32, 14, 14}},
    {"odd_channels", "num_output: 19 kernel_size: 3 pad: 1", {1, 21, 5, 4}},
    {"gray_image", "num_output: 20 kernel_size: 5", {5, 1, 28, 28}},
    {"lenet_conv2", "num_output: 50 kernel_size: 5", {3, 20, 12, 12}},
    {"stem", "num_output: 24 kernel_size: 7 stride: 2 pad: 3", {2, 3, 30, 30}},
    {"strided_pointwise", "num_output: 40 kernel_size: 1 stride: 2", {2, 24, 11, 13}},
    {"grouped", "num_output: 32 kernel_size: 3 pad: 1 group: 2", {2, 32, 9, 9}},
    {"two_towers", "num_output: 64 kernel_size: 5 pad: 2 group: 2", {2, 32, 9, 9}},
    {"groups_of_four", "num_output: 40 kernel_size: 3 pad: 1 group: 10", {2, 40, 9, 9}},
    {"depthwise", "num_output: 40 kernel_size: 3 pad: 1 stride: 2 group: 40", {2, 40, 9, 9}},
    {"depthwise_rows", "num_output: 32 kernel_size: 3 pad: 1 group: 32", {2, 32, 40, 41}},
    {"depthwise_five", "num_output: 21 kernel_size: 5 pad: 2 group: 21", {2, 21, 13, 12}},
    {"depthwise_dilated",
     "num_output: 17 kernel_size: 3 dilation: 2 pad: 2 group: 17",
     {2, 17, 9, 8}},
    {"depthwise_sequence", "num_output: 24 kernel_size: 5 stride: 2 group: 24", {2, 24, 30}},
    // For im2col, which gathers once what taps one image row apart share.
    {"blocks_that_overlap", "num_output: 6 kernel_size: 3 pad: 1", {2, 37, 14, 14}},
    {"rows_apart", "num_output: 5 kernel_h: 3 kernel_w: 2 dilation: 2 dilation: 1", {2, 3, 20, 9}},
    {"row_by_row", "num_output: 5 kernel_size: 3 pad: 1 stride: 1 stride: 2", {2, 3, 12, 17}},
    {"many_pixels", "num_output: 7 kernel_h: 3 kernel_w: 2", {1, 4, 41, 38}},
};
INSTANTIATE_TEST_SUITE_P(Larger, ConvolutionEngines, ::testing::ValuesIn(kLarger), name_of);

TEST(ConvolutionLayer, EnginesOnLesserProcessors) {
  const LayerCase odd = make("num_output: 19 kernel_size: 3 pad: 1", {2, 21, 9, 10});
  const LayerCase image = make("num_output: 20 kernel_size: 5 stride: 2", {2, 3, 17, 18});
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    for (const LayerCase& c : {odd, image}) check_engines(c, kF32, refusing(c, true));
  }
}

TEST(ConvolutionLayer, ComputesByHand) {
  LayerCase c = make("num_output: 1 kernel_size: 2", {1, 1, 2, 3});
  c.bottoms = {given({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})};
  c.params = {{1, 10, 100, 1000}, {0.5}};
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(5421.5, 6532.5));
  run.set_top_diff(0, {1, 2});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 12, 20, 100, 1200, 2000));
  EXPECT_THAT(run.gradient(0), ElementsAre(5, 8, 14, 17));
  EXPECT_THAT(run.gradient(1), ElementsAre(3));
}

TEST(ConvolutionLayer, RoundsTheLastWindowDown) {
  EXPECT_EQ(top_shape(make("num_output: 2 kernel_size: 3 pad: 1 stride: 2", {1, 1, 64, 64})),
            (Shape{1, 2, 32, 32}));
  EXPECT_EQ(top_shape(make("num_output: 2 kernel_size: 3 dilation: 2", {1, 1, 5, 6})),
            (Shape{1, 2, 1, 2}));
}

TEST(ConvolutionLayer, SharesWeightsAmongBottoms) {
  LayerCase c = make("num_output: 5 kernel_size: 3", {2, 4, 7, 6});
  c.bottoms.push_back(uniform({2, 4, 7, 6}));
  c.tops = 2;
  check_gradients(c);
  check_engines(c, kF32, refusing(c, true));
}

TEST(ConvolutionLayer, AppliesAReLUBehindIt) {
  for (const char* slope : {"0", "0.25"}) {
    LayerCase c = make("num_output: 20 kernel_size: 3", {2, 12, 8, 7});
    c.tail = {text("layer { type: \"ReLU\" relu_param { negative_slope: ", slope, " } }")};
    check_engines(c, kF32, refusing(c, true));
  }
}

TEST(ConvolutionLayer, AppliesReLUWhenItsMessageSaysSo) {
  const LayerCase c =
      make("num_output: 4 kernel_size: 3 relu: true negative_slope: 0.5", {2, 3, 5, 5});
  LayerCase plain = make("num_output: 4 kernel_size: 3", {2, 3, 5, 5});
  plain.tail = {"layer { type: \"ReLU\" relu_param { negative_slope: 0.5 } }"};
  LayerRun run(c), expected(plain, {.fuse = false});
  run.forward();
  expected.forward();
  EXPECT_EQ(run.top(0), expected.top(0));
  check_gradients(c, {.step = 1e-7, .tolerance = 1e-5});
}

TEST(ConvolutionLayer, AcceptsOnlyWhatItCanUndo) {
  LayerRun run(make("num_output: 4 kernel_size: 3", {1, 2, 4, 4}));
  const TailStep relu{.kind = TailStep::Kind::relu};
  EXPECT_FALSE(run.layer().accepts({{.kind = TailStep::Kind::relu, .slope = -1}}));
  EXPECT_TRUE(run.layer().accepts({relu}));
  EXPECT_FALSE(run.layer().accepts({relu, relu})) << "one activation is all it has room for";
  EXPECT_FALSE(run.kernel().backward_reads().top_data);
  LayerCase with_relu = make("num_output: 4 kernel_size: 3", {1, 2, 4, 4});
  with_relu.tail = {"layer { type: 'ReLU' }"};
  EXPECT_TRUE(LayerRun(with_relu).kernel().backward_reads().top_data);
}

class ConvolutionByEngine : public ::testing::TestWithParam<std::string> {
 protected:
  /// A 3x3 convolution of 16 channels. The engine that takes as many groups and outputs as channels
  /// gets these.
  static LayerCase layer_case(int64_t outputs, int64_t batch, int64_t h, int64_t w,
                              const std::string& settings = "") {
    const bool depthwise = GetParam() == "depthwise";
    return make(text("num_output: ", outputs, " kernel_size: 3 group: ", depthwise ? outputs : 1,
                     " ", settings),
                {batch, depthwise ? outputs : 16, h, w});
  }
};

// Engines keep weights in layouts of their own.
TEST_P(ConvolutionByEngine, NoticesNewWeights) {
  for (const bool trains : {true, false}) {
    LayerRun run(layer_case(16, 1, 6, 6), {.engine = GetParam(), .option = 0, .trains = trains});
    run.forward();
    const std::vector<double> before = run.top(0);
    for (double& w : run.param_values(0)) w *= 2;
    for (double& b : run.param_values(1)) b *= 2;
    run.forward();
    std::vector<double> doubled = before;
    for (double& value : doubled) value *= 2;
    expect_close(run.top(0), doubled, {1e-6, 1e-6}, "result of doubled weights");
  }
}

TEST_P(ConvolutionByEngine, InferenceAgreesWithTheReference) {
  const LayerCase c = layer_case(18, 2, 9, 10, "pad: 1");
  LayerRun truth(c, {.trains = false});
  truth.forward();
  const RunOptions any{.engine = GetParam(), .trains = false};
  const int options = static_cast<int>(LayerRun(c, any).options().size());
  for (int option = 0; option < options; ++option) {
    LayerRun run(c, {.engine = GetParam(), .option = option, .trains = false});
    for (const char* pass : {"first", "second, with kept weights"}) {
      run.forward();
      expect_close(run.top(0), truth.top(0), kF32, text("option ", option, ", ", pass));
    }
  }
}

TEST_P(ConvolutionByEngine, GradientsAddUp) {
  LayerRun run(layer_case(18, 2, 6, 6), {.engine = GetParam(), .option = 0});
  run.forward();
  run.backward();
  const std::vector<double> weights = run.gradient(0), bias = run.gradient(1);
  run.forward();
  run.backward();
  std::vector<double> twice = weights, twice_bias = bias;
  for (double& value : twice) value *= 2;
  for (double& value : twice_bias) value *= 2;
  expect_close(run.gradient(0), twice, kF32, "weights after two passes");
  expect_close(run.gradient(1), twice_bias, kF32, "bias after two passes");
  run.clear_gradients();
  run.forward();
  run.backward();
  expect_close(run.gradient(0), weights, kF32, "weights after clearing");
}

TEST_P(ConvolutionByEngine, LeavesFixedParametersAlone) {
  const LayerCase c = layer_case(21, 2, 6, 6);
  const int options = static_cast<int>(LayerRun(c, {.engine = GetParam()}).options().size());
  for (int option = 0; option < options; ++option) {
    for (const int fixed : {0, 1}) {
      SCOPED_TRACE(text("option ", option, ", fixed ", fixed));
      LayerRun run(c), half(c, {.engine = GetParam(), .option = option});
      half.layer().params()[fixed]->needs_gradient = false;
      half.reshape(c.bottoms);
      // Twice: gradients are added up.
      for (LayerRun* each : {&run, &half, &run, &half}) {
        each->forward();
        each->backward();
      }
      expect_close(half.gradient(1 - fixed), run.gradient(1 - fixed), kF32, "the other gradient");
      EXPECT_THAT(half.gradient(fixed), ::testing::Each(0));
    }
  }
}

TEST_P(ConvolutionByEngine, FollowsNewShapes) {
  const LayerCase c = layer_case(16, 2, 6, 6, "pad: 1");
  LayerRun run(c, {.engine = GetParam(), .option = 0}), truth(c);
  for (const Shape& shape : {Shape{1, 16, 9, 4}, Shape{4, 16, 3, 11}, Shape{2, 16, 6, 6}}) {
    for (LayerRun* each : {&run, &truth}) {
      each->reshape({uniform(shape)});
      each->clear_gradients();
      each->forward();
      each->backward();
    }
    expect_close(run.top(0), truth.top(0), kF32, shape.str());
    expect_close(run.bottom_diff(0), truth.bottom_diff(0), kF32, shape.str());
    expect_close(run.gradient(0), truth.gradient(0), kF32, shape.str());
  }
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names = {"reference"};
  for (const EngineEntry* entry : Registry::instance().engines("Convolution", DeviceType::cpu)) {
    names.push_back(entry->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionByEngine, ::testing::ValuesIn(engine_names()),
                         [](const auto& param_info) { return param_info.param; });

TEST(ConvolutionLayer, CountsItsOperations) {
  LayerRun run(make("num_output: 6 kernel_size: 3 group: 2", {2, 4, 5, 6}));
  const auto flops = [&] {
    return run.layer().flops(std::array{&run.bottom_blob(0)}, std::array{&run.top_blob(0)});
  };
  const double sums = 2 * 6 * 3 * 4, products = sums * 2 * (4 / 2) * 9;
  EXPECT_EQ(flops().forward, products + sums);
  EXPECT_EQ(flops().backward, 2 * products + sums);
  run.layer().require({.bottom_diffs = {false}});
  EXPECT_EQ(flops().backward, products + sums) << "the diff of an image is not computed";
}

// Two forks have types of their own for it.
TEST(ConvolutionLayer, OtherTypesSplitAllChannels) {
  const LayerCase plain = make("num_output: 6 kernel_size: 3 group: 3", {2, 3, 6, 5});
  LayerRun expected(plain);
  expected.forward();
  expected.backward();
  for (const std::string type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    SCOPED_TRACE(type);
    const auto of_type = [&](LayerCase c) {
      c.layer.replace(c.layer.find("Convolution"), 11, type);
      return c;
    };
    const LayerCase c = of_type(make("num_output: 6 kernel_size: 3", {2, 3, 6, 5}));
    LayerRun run(c);
    run.forward();
    run.backward();
    EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{6, 1, 3, 3}));
    EXPECT_EQ(run.top(0), expected.top(0));
    EXPECT_EQ(run.gradient(0), expected.gradient(0));
    check_engines(of_type(make("num_output: 19 kernel_size: 3 pad: 1", {2, 19, 6, 5})), kF32,
                  {"direct", "winograd"});
    LayerRun grouped(of_type(make("num_output: 6 kernel_size: 3 group: 1", {2, 3, 6, 5})));
    EXPECT_EQ(grouped.layer().params()[0]->shape(), (Shape{6, 3, 3, 3}));
    expect_error(
        [&] {
          LayerRun{of_type(make("num_output: 4 kernel_size: 3", {2, 3, 6, 5}))};
        },
        {"num_output 4", "group 3", "the number of channels"});
  }
}

TEST(ConvolutionLayer, RefusesWrongSettings) {
  const auto refuse = [](const std::string& settings, std::initializer_list<std::string_view> words,
                         Shape bottom = {1, 4, 5, 5}) {
    expect_error([&] { LayerRun{make(settings, bottom)}; }, words);
  };
  refuse("kernel_size: 3", {"num_output", "0"});
  refuse("num_output: 3", {"kernel_size is not set"});
  refuse("num_output: 3 kernel_size: 0", {"kernel_size is 0"});
  refuse("num_output: 3 kernel_size: 7", {"kernel 7 exceeds the padded input 5", "add pad"});
  refuse("num_output: 3 kernel_size: 3 dilation: 3", {"dilation 3 reaches 7", "padded input 5"});
  refuse("num_output: 3 kernel_size: 3 kernel_h: 3 kernel_w: 3",
         {"kernel_size and kernel_h / kernel_w"});
  refuse("num_output: 3 kernel_h: 3", {"kernel_w is missing"});
  refuse("num_output: 3 kernel_size: 3 stride: 0", {"stride is 0"});
  refuse("num_output: 3 kernel_size: 3 stride: 1 stride_h: 1", {"stride and stride_h / stride_w"});
  refuse("num_output: 3 kernel_size: 3 pad: 1 pad_w: 1", {"pad and pad_h / pad_w"});
  refuse("num_output: 3 kernel_size: 3 dilation: 0", {"dilation is 0"});
  refuse("num_output: 3 kernel_size: 3 kernel_size: 3 kernel_size: 3",
         {"3 times", "2 spatial axes"});
  refuse("num_output: 3 kernel_h: 3 kernel_w: 3", {"kernel_h and _w", "3"}, {1, 2, 5, 5, 5});
  refuse("num_output: 3 kernel_size: 3 group: 2", {"num_output 3", "group 2"});
  refuse("num_output: 6 kernel_size: 3 group: 3", {"4 channels", "group 3"});
  refuse("num_output: 6 kernel_size: 3 group: 0", {"group is 0"});
  refuse("num_output: 3 kernel_size: 3 axis: 4", {"4"});
  refuse("num_output: 3 kernel_size: 3 fusion_type: SUM_FUSION", {"SUM_FUSION", "Eltwise"});
  refuse("num_output: 3 kernel_size: 3 relu: true negative_slope: -1", {"negative_slope -1"});
}

TEST(ConvolutionLayer, RefusesWrongBottoms) {
  LayerCase c = make("num_output: 3 kernel_size: 3", {1, 4, 5, 5});
  c.tops = 2;
  expect_error([&] { LayerRun{c}; }, {"1 bottoms", "2 tops"});
  c.bottoms.push_back(uniform({1, 4, 6, 5}));
  expect_error([&] { LayerRun{c}; }, {"1x4x5x5", "1x4x6x5"});
  c.tops = 1;
  c.bottoms.pop_back();
  LayerRun run(c);
  expect_error([&] { run.reshape({uniform({1, 5, 5, 5})}); }, {"5 channels", "4"});
  expect_error([&] { run.reshape({uniform({1, 4, 5})}); }, {"3 axes", "4"});
}

TEST(ConvolutionLayer, RefusesUnknownAlgorithms) {
  LayerCase c = make("num_output: 16 kernel_size: 3 conv_algorithm: \"fft\"", {1, 16, 6, 6});
  expect_error([&] { LayerRun(c, {.engine = ""}); }, {"fft", "winograd"});
}

TEST(ConvolutionLayer, RunsEmptyBatches) {
  LayerRun run(make("num_output: 3 kernel_size: 3", {0, 4, 5, 5}), {.engine = ""});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 3, 3, 3}));
  run.backward();
  EXPECT_THAT(run.gradient(0), ::testing::Each(0));
  EXPECT_THAT(run.gradient(1), ::testing::Each(0));
}

// As in a net, which keeps the option when shapes follow from values.
TEST(ConvolutionLayer, EngineRunsNoRows) {
  LayerRun run(make("num_output: 16 kernel_size: 3", {2, 16, 6, 6}), {.engine = "tuned"});
  run.forward();
  run.backward();
  run.clear_gradients();
  Blob* const bottom = &run.bottom_blob(0);
  Blob* const top = &run.top_blob(0);
  bottom->reshape({0, 16, 6, 6});
  Layer& layer = run.layer();
  layer.reshape({&bottom, 1}, {&top, 1});
  const auto kernel = make_kernel(layer, run.option(), {&bottom, 1}, {&top, 1});
  kernel->forward({&bottom, 1}, {&top, 1});
  kernel->backward({&top, 1}, {true}, {&bottom, 1});
  EXPECT_THAT(run.gradient(0), ::testing::Each(0));
  EXPECT_THAT(run.gradient(1), ::testing::Each(0));
}

}  // namespace
}  // namespace crema::test
