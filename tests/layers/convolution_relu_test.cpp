// A convolution that ends in a ReLU, in a net: whose diffs its backward may change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "crema/registry.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

constexpr const char* kNet = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 16 dim: 6 dim: 6 } } }
layer { name: "inner" type: "Convolution" bottom: "data" top: "inner"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "inner" top: "inner" }
layer { name: "conv" type: "Convolution" bottom: "inner" top: "conv"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "leaky" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
)";

/// The gradients of `passes` backward passes from a diff of the output that is written once.
std::vector<double> gradients(const std::string& engine, int64_t groups, int passes, bool fuse) {
  Context context({.engine = engine});
  NetParameter param = net_param(kNet);
  for (auto& layer : *param.mutable_layer()) {
    if (layer.has_convolution_param())
      layer.mutable_convolution_param()->set_group(static_cast<uint32_t>(groups));
  }
  Net net(param, context, {.fuse = fuse});
  fill_inputs(net);
  Tensor& diff = net.blob("conv").diff;
  std::vector<double> seed;
  for (int64_t i = 0; i < diff.count(); ++i) seed.push_back(static_cast<double>(i % 7) - 3);
  Tensor values(diff.shape(), DType::f64);
  std::copy(seed.begin(), seed.end(), values.overwrite<double>());
  diff.copy_from(values);
  net.clear_gradients();
  for (int pass = 0; pass < passes; ++pass) {
    net.forward();
    net.backward();
  }
  EXPECT_EQ(values_of(diff), seed) << "the caller's diff";
  return gradients_of(net);
}

class ConvolutionReLU : public ::testing::TestWithParam<std::string> {};

/// Two convolutions in a row, and Winograd's, the least exact engine, errs by up to 4e-6 of the
/// largest value in each (tests/backend/winograd_test.cpp).
Tolerance of_two_convolutions(const std::vector<double>& values) {
  const auto size = [](double value) { return std::abs(value); };
  return {2 * 4e-6 * size(std::ranges::max(values, {}, size)), 1e-4};
}

TEST_P(ConvolutionReLU, LeavesTheCallersDiffAlone) {
  const int64_t groups = GetParam() == "depthwise" ? 16 : 1;  // it takes nothing else
  const std::vector<double> once = gradients("reference", groups, 1, false);
  std::vector<double> twice = once;
  for (double& value : twice) value *= 2;
  expect_close(gradients(GetParam(), groups, 1, true), once, of_two_convolutions(once),
               "gradients");
  expect_close(gradients(GetParam(), groups, 2, true), twice, of_two_convolutions(twice),
               "gradients of two passes");
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names = {"reference"};
  for (const EngineEntry* entry : Registry::instance().engines("Convolution", DeviceType::cpu)) {
    names.push_back(entry->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionReLU, ::testing::ValuesIn(engine_names()),
                         [](const auto& engine) { return engine.param; });

// Between layers, where nobody looks, the ReLU is undone in place and takes no memory.
TEST(ConvolutionReLU, TakesMemoryOnlyWhereADiffIsKept) {
  const LayerCase c{.layer = R"(layer { type: "Convolution" convolution_param {
                                num_output: 16 kernel_size: 3 weight_filler { type: "msra" } } })",
                    .bottoms = {uniform({2, 16, 6, 6})},
                    .tail = {"layer { type: 'ReLU' }"}};
  size_t bytes[2];
  for (const bool keeps : {false, true}) {
    // Primitives of other engines are chosen by measured times, and have memory of their own.
    LayerRun run(c, {.engine = "reference", .keeps_top_diffs = keeps});
    bytes[keeps] = run.kernel().bytes();
  }
  EXPECT_EQ(bytes[true] - bytes[false], 2u * 16 * 4 * 4 * sizeof(float));
}

}  // namespace
}  // namespace crema::test
