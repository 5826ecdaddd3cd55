#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "crema/registry.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

const char* const kRelu = R"(layer { type: "ReLU" })";
const char* const kLeaky = R"(layer { type: "ReLU" relu_param { negative_slope: 0.25 } })";
const char* const kMirrored = R"(layer { type: "ReLU" relu_param { negative_slope: -0.5 } })";

TEST(ReLU, CutsOffNegativeValues) {
  LayerRun run({.layer = kRelu, .bottoms = {given({4}, {-2, -0.5, 0, 3})}});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(0, 0, 0, 3));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 4));
}

TEST(ReLU, ScalesNegativeValuesBySlope) {
  LayerRun run({.layer = kLeaky, .bottoms = {given({3}, {-2, 0, 3})}});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(-0.5, 0, 3));
  run.set_top_diff(0, {1, 1, 1});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0.25, 0.25, 1));
}

TEST(ReLU, NaNIsNotHidden) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LayerRun run({.layer = kRelu, .bottoms = {given({1}, {nan})}});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
}

/// The outputs of each engine that takes the layer, in each of its options, with the ReLU behind it
/// fused if `fuse`.
void expect_zeros(const LayerCase& c, const std::string& type, bool fuse,
                  const std::set<std::string>& refusing = {}) {
  std::vector<std::string> engines = {"reference"};
  for (const EngineEntry* entry : Registry::instance().engines(type, DeviceType::cpu)) {
    if (refusing.count(entry->name) == 0) engines.push_back(entry->name);
  }
  for (const std::string& engine : engines) {
    for (int option = 0, options = 1; option < options; ++option) {
      LayerRun run(c, {.engine = engine, .option = option, .fuse = fuse});
      options = static_cast<int>(run.options().size());
      SCOPED_TRACE(testing::Message()
                   << type << " " << engine << " option " << option << " fuse " << fuse);
      run.forward();
      EXPECT_THAT(run.top(0), testing::Each(0));
    }
  }
}

// Slope 0 times -inf would be NaN.
TEST(ReLU, OfMinusInfinityIsZeroWhereverItIsFused) {
  const double low = -std::numeric_limits<double>::infinity();
  const std::vector<double> lows(16, low);
  const LayerCase relu{.layer = kRelu, .bottoms = {given({16}, lows)}};
  const LayerCase convolution{.layer = R"(layer { type: "Convolution" convolution_param {
                  num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } })",
                              .bottoms = {uniform({2, 16, 8, 8})},
                              .params = {{}, lows},
                              .tail = {kRelu}};
  LayerCase depthwise = convolution;
  depthwise.layer.replace(depthwise.layer.find("Convolution"), 11, "DepthwiseConvolution");
  const LayerCase inner_product{.layer = R"(layer { type: "InnerProduct" inner_product_param {
                  num_output: 16 weight_filler { type: "msra" } } })",
                                .bottoms = {uniform({4, 24})},
                                .params = {{}, lows},
                                .tail = {kRelu}};
  const LayerCase sum{.layer = R"(layer { type: "Eltwise" })",
                      .bottoms = {given({16}, lows), given({16}, lows)},
                      .tail = {kRelu}};
  const LayerCase maximum{
      .layer = R"(layer { type: "Pooling" pooling_param { kernel_size: 2 stride: 2 } })",
      .bottoms = {given({1, 1, 4, 4}, lows)},
      .tail = {kRelu}};
  for (const bool fuse : {true, false}) {
    expect_zeros(relu, "ReLU", fuse);
    expect_zeros(convolution, "Convolution", fuse, {"depthwise"});
    expect_zeros(depthwise, "DepthwiseConvolution", fuse, {"direct", "winograd"});
    expect_zeros(inner_product, "InnerProduct", fuse);
    expect_zeros(sum, "Eltwise", fuse);
    expect_zeros(maximum, "Pooling", fuse);
  }
}

TEST(ReLU, ZeroHasNoSign) {
  LayerRun run({.layer = kRelu, .bottoms = {given({1}, {-1})}});
  run.forward();
  EXPECT_FALSE(std::signbit(run.top(0)[0]));
}

TEST(ReLU, Gradients) {
  for (const char* layer : {kRelu, kLeaky, kMirrored}) {
    check_gradients({.layer = layer, .bottoms = {uniform({2, 3, 5, 4})}}, {.kink_range = 1e-4});
  }
}

// The sign of x is that of y unless the slope is negative: only then must x be kept.
TEST(ReLU, KeepsTheBottomOnlyForNegativeSlopes) {
  for (const char* layer : {kRelu, kLeaky}) {
    LayerRun run({.layer = layer, .bottoms = {uniform({2, 3})}});
    EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
    EXPECT_TRUE(run.kernel().backward_reads().top_data);
    EXPECT_TRUE(run.layer().as_tail_step().has_value());
  }
  LayerRun run({.layer = kMirrored, .bottoms = {uniform({2, 3})}});
  EXPECT_TRUE(run.kernel().backward_reads().bottom_data);
  EXPECT_FALSE(run.kernel().backward_reads().top_data);
  EXPECT_FALSE(run.layer().as_tail_step().has_value());
}

TEST(ReLU, EveryFormat) {
  const auto ran = check_engines({.layer = kLeaky, .bottoms = {uniform({2, 11, 3, 5})}});
  EXPECT_THAT(ran, IsSupersetOf({"reference contiguous", "reference channels_last",
                                 "reference blocked8", "reference blocked16"}));
  check_engines({.layer = kMirrored, .bottoms = {uniform({2, 11, 3, 5})}});
  check_engines({.layer = kRelu, .bottoms = {uniform({7})}});
  check_engines({.layer = kRelu, .bottoms = {uniform({2, 0, 3})}});
}

}  // namespace
}  // namespace crema::test
