#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/convolution.pb.h"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sums of up to some thousand products of numbers below 1, in f32.
constexpr Tolerance kF32{.absolute = 1e-4, .relative = 2e-5};

LayerCase make(const std::string& settings, Shape bottom) {
  return {.layer = text("layer { type: 'Deconvolution' convolution_param { ", settings,
                        " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
                        " bias_filler { type: 'uniform' min: -1 max: 1 } } }"),
          .bottoms = {uniform(std::move(bottom))}};
}

Shape top_shape(const LayerCase& layer_case) { return LayerRun(layer_case).top_blob(0).shape(); }

struct Setting {
  const char* name;
  const char* settings;
  std::vector<int64_t> bottom;
  /// Whether engines beside the reference take it.
  bool fast = true;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
std::string name_of(const ::testing::TestParamInfo<Setting>& info) { return info.param.name; }

class DeconvolutionEngines : public ::testing::TestWithParam<Setting> {
 protected:
  LayerCase layer_case() const { return make(GetParam().settings, Shape(GetParam().bottom)); }
};
class Deconvolution : public DeconvolutionEngines {};

TEST_P(Deconvolution, GradientsAreTheDerivatives) { check_gradients(layer_case()); }

/// Engines that say that they do not take the layer.
std::vector<std::string> refusing(const LayerCase& layer_case, bool fast) {
  std::vector<std::string> names;
  for (const EngineEntry* entry : Registry::instance().engines("Deconvolution", DeviceType::cpu)) {
    bool refuses = !fast;
    try {
      LayerRun(layer_case, {.engine = entry->name});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("refuses")) << entry->name;
      EXPECT_FALSE(fast && (entry->name == "tuned" || entry->name == "onednn")) << error.what();
      refuses = true;
    }
    if (refuses) names.push_back(entry->name);
  }
  return names;
}

TEST_P(DeconvolutionEngines, AgreeWithTheReference) {
  check_engines(layer_case(), kF32, refusing(layer_case(), GetParam().fast));
}

// The transposed convolution: <deconvolution(x), z> = <x, convolution(z)> with the same weights.
TEST_P(Deconvolution, IsTheTransposeOfConvolution) {
  LayerCase up = make(text(GetParam().settings, " bias_term: false"), Shape(GetParam().bottom));
  LayerRun run(up, {.dtype = DType::f64});
  run.forward();
  const auto& geometry = dynamic_cast<ConvolutionLayer&>(run.layer()).geometry();
  LayerCase down{.layer = up.layer,
                 .bottoms = {uniform(run.top_blob(0).shape())},
                 .params = {run.param_values(0)}};
  down.layer.replace(down.layer.find("Deconvolution"), 13, "Convolution");
  const std::string made = text("num_output: ", geometry.top_channels());
  down.layer.replace(down.layer.find(made), made.size(), text("num_output: ", geometry.outputs));
  LayerRun transpose(down, {.dtype = DType::f64});
  transpose.forward();
  ASSERT_EQ(transpose.top_blob(0).shape(), Shape(GetParam().bottom));
  double up_side = 0, down_side = 0;
  for (size_t i = 0; i < run.top(0).size(); ++i) {
    up_side += run.top(0)[i] * transpose.bottom_values(0)[i];
  }
  for (size_t i = 0; i < transpose.top(0).size(); ++i) {
    down_side += transpose.top(0)[i] * run.bottom_values(0)[i];
  }
  EXPECT_NEAR(up_side, down_side, 1e-10);
}

const Setting kSmall[] = {
    {"plain", "num_output: 4 kernel_size: 3", {2, 3, 4, 5}},
    {"pad", "num_output: 5 kernel_size: 3 pad: 1", {2, 3, 5, 5}},
    {"stride", "num_output: 4 kernel_size: 3 stride: 2", {2, 3, 4, 3}},
    {"stride_beyond_kernel", "num_output: 4 kernel_size: 1 stride: 3", {2, 5, 3, 4}},
    {"dilation", "num_output: 4 kernel_size: 3 dilation: 2 pad: 2", {2, 3, 5, 6}},
    {"group", "num_output: 6 kernel_size: 3 group: 2 pad: 1", {2, 4, 5, 6}},
    {"upsampling", "num_output: 8 kernel_size: 4 stride: 2 pad: 1 group: 8", {2, 8, 4, 3}},
    {"pointwise", "num_output: 7 kernel_size: 1", {3, 5, 4, 3}},
    {"by_axes", "num_output: 4 kernel_h: 2 kernel_w: 3 stride_h: 2 pad_w: 1", {2, 3, 4, 5}},
    {"sequence", "num_output: 4 kernel_size: 3 pad: 1 stride: 2", {2, 3, 5}},
    {"volume", "num_output: 3 kernel_size: 2 stride: 2", {1, 2, 2, 3, 2}},
    {"four_spatial_axes", "num_output: 2 kernel_size: 2", {1, 2, 2, 1, 2, 2}, false},
    {"no_spatial_axis", "num_output: 4", {3, 5}, false},
    {"leading_axes", "num_output: 3 axis: 2 kernel_size: 2", {2, 2, 3, 3, 2}, false},
};
INSTANTIATE_TEST_SUITE_P(Small, Deconvolution, ::testing::ValuesIn(kSmall), name_of);
INSTANTIATE_TEST_SUITE_P(Small, DeconvolutionEngines, ::testing::ValuesIn(kSmall), name_of);

const Setting kLarger[] = {
    {"blocks", "num_output: 32 kernel_size: 3 pad: 1", {2, 32, 9, 9}},
    {"odd_channels", "num_output: 19 kernel_size: 4 stride: 2 pad: 1", {1, 21, 5, 4}},
    {"to_an_image", "num_output: 3 kernel_size: 4 stride: 2 pad: 1", {2, 24, 8, 8}},
    {"classes",
     "num_output: 21 kernel_size: 16 stride: 8 group: 21 bias_term: false",
     {1, 21, 5, 5}},
};
INSTANTIATE_TEST_SUITE_P(Larger, DeconvolutionEngines, ::testing::ValuesIn(kLarger), name_of);

TEST(DeconvolutionLayer, ComputesByHand) {
  LayerCase c = make("num_output: 1 kernel_size: 2 stride: 1", {1, 1, 1, 2});
  c.bottoms = {given({1, 1, 1, 2}, {1, 2})};
  c.params = {{1, 10, 100, 1000}, {0.5}};
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, 2, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(1.5, 12.5, 20.5, 100.5, 1200.5, 2000.5));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(5421, 6532));
  EXPECT_THAT(run.gradient(0), ElementsAre(5, 8, 14, 17));
  EXPECT_THAT(run.gradient(1), ElementsAre(21));
}

// Weights are (bottom's channels, num_output / group, kernel), as published.
TEST(DeconvolutionLayer, ShapesOfParametersAndTop) {
  LayerRun run(make("num_output: 6 kernel_size: 3 stride: 2 group: 2", {1, 4, 5, 5}));
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(run.layer().params()[1]->shape(), Shape{6});
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 6, 11, 11}));
  EXPECT_EQ(top_shape(make("num_output: 2 kernel_size: 3 dilation: 2 pad: 1", {1, 1, 5, 6})),
            (Shape{1, 2, 7, 8}));
}

TEST(DeconvolutionLayer, SharesWeightsAmongBottoms) {
  LayerCase c = make("num_output: 5 kernel_size: 3 stride: 2", {2, 4, 3, 4});
  c.bottoms.push_back(uniform({2, 4, 3, 4}));
  c.tops = 2;
  check_gradients(c);
  check_engines(c, kF32, refusing(c, true));
}

TEST(DeconvolutionLayer, AppliesAReLUBehindIt) {
  for (const char* slope : {"0", "0.25"}) {
    LayerCase c = make("num_output: 20 kernel_size: 3", {2, 12, 6, 5});
    c.tail = {text("layer { type: 'ReLU' relu_param { negative_slope: ", slope, " } }")};
    check_engines(c, kF32, refusing(c, true));
  }
}

TEST(DeconvolutionLayer, InferenceAgreesWithTheReference) {
  const LayerCase c = make("num_output: 18 kernel_size: 4 stride: 2 pad: 1", {2, 16, 5, 6});
  LayerRun truth(c, {.trains = false});
  truth.forward();
  const int options =
      static_cast<int>(LayerRun(c, {.engine = "tuned", .trains = false}).options().size());
  EXPECT_GT(options, 0);
  for (int option = 0; option < options; ++option) {
    LayerRun run(c, {.engine = "tuned", .option = option, .trains = false});
    for (const char* pass : {"first", "second, with kept weights"}) {
      run.forward();
      expect_close(run.top(0), truth.top(0), kF32, text("option ", option, ", ", pass));
    }
  }
}

TEST(DeconvolutionLayer, LeavesFixedParametersAlone) {
  const LayerCase c = make("num_output: 21 kernel_size: 3", {2, 16, 4, 4});
  for (const int fixed : {0, 1}) {
    LayerRun run(c), half(c, {.engine = "tuned"});
    half.layer().params()[fixed]->needs_gradient = false;
    half.reshape(c.bottoms);
    for (LayerRun* each : {&run, &half, &run, &half}) {  // twice: gradients are added up
      each->forward();
      each->backward();
    }
    expect_close(half.gradient(1 - fixed), run.gradient(1 - fixed), kF32, "the other gradient");
    EXPECT_THAT(half.gradient(fixed), ::testing::Each(0));
  }
}

TEST(DeconvolutionLayer, RunsEmptyBatches) {
  LayerRun run(make("num_output: 2 kernel_size: 3", {0, 3, 4, 4}));
  run.forward();
  run.backward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2, 6, 6}));
  EXPECT_THAT(run.gradient(0), ::testing::Each(0));
}

TEST(DeconvolutionLayer, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& settings, Shape bottom,
                          std::initializer_list<std::string_view> texts) {
    SCOPED_TRACE(settings);
    expect_error([&] { LayerRun{make(settings, std::move(bottom))}; }, texts);
  };
  refused("num_output: 2 kernel_size: 3 pad: 3", {1, 1, 3, 4}, {"pad 3", "5 outputs", "axis 2"});
  refused("num_output: 2 kernel_size: 3", {1, 1, 0, 4}, {"0 outputs", "axis 2"});
  refused("num_output: 3 kernel_size: 3 group: 2", {1, 4, 3, 3}, {"num_output 3", "group 2"});
  refused("num_output: 4 kernel_size: 3 group: 2", {1, 3, 3, 3}, {"3 channels", "group 2"});
  refused("kernel_size: 3", {1, 3, 3, 3}, {"num_output is 0"});
  ConvolutionParameter far;
  far.set_num_output(1);
  far.add_kernel_size(std::numeric_limits<uint32_t>::max());
  far.add_dilation(std::numeric_limits<uint32_t>::max());
  ConvolutionGeometry geometry(far, ConvolutionGeometry::Kind::deconvolution);
  geometry.set_up({1, 1, 3});
  expect_error([&] { geometry.fit({1, 1, 3}); }, {"4294967295 times 4294967294", "64 bits"});
  LayerRun run(make("num_output: 2 kernel_size: 3", {1, 3, 4, 4}));
  expect_error([&] { run.reshape({uniform({1, 4, 4, 4})}); }, {"4", "weights are for 3"});
}

}  // namespace
}  // namespace crema::test
