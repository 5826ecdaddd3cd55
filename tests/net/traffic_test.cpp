// What moves between host and device for each step, as it is predicted and as it does on a device
// that counts.
#include "net/traffic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_context.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;

// Convolution has no engine for a device in a build without CUDA: it runs on the host.
const std::string kNet = R"(
layer { name: "x" type: "Input" top: "x" top: "label"
        input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } shape { dim: 2 dim: 8 dim: 8 } } }
layer { name: "lrn" type: "LRN" bottom: "x" top: "lrn" }
layer { name: "conv" type: "Convolution" bottom: "lrn" top: "conv" param { lr_mult: RATE } param { lr_mult: RATE }
        convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "cat" type: "Concat" bottom: "conv" bottom: "conv" top: "cat" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "cat" bottom: "label" top: "loss" })";

std::string net_text(const std::string& rate) {
  std::string text = kNet;
  for (size_t at; (at = text.find("RATE")) != std::string::npos;) text.replace(at, 4, rate);
  return text;
}

const StepTraffic& of(const Net& net, const std::vector<StepTraffic>& traffic,
                      const std::string& layer) {
  for (size_t s = 0; s < net.steps().size(); ++s) {
    if (net.steps()[s].name == layer && net.steps()[s].layer >= 0) return traffic[s];
  }
  throw Error("no step ", layer);
}

TEST(Traffic, OnTheHostNothingMoves) {
  Context context({.engine = "reference", .tune = false});
  const Net net(net_param(net_text("1")), context);
  for (const StepTraffic& step : step_traffic(net)) {
    EXPECT_FALSE(step.is_on_host());
    EXPECT_EQ(step.to_host + step.to_device, 0u);
    EXPECT_EQ(placement(step), "");
  }
  const std::vector<StepTraffic> traffic = step_traffic(net);
  EXPECT_EQ(of(net, traffic, "lrn").forward, 2u * 1536);
  EXPECT_EQ(of(net, traffic, "lrn").backward, 0u);
  EXPECT_EQ(of(net, traffic, "conv").forward, 1536u + 2048 + 64);
  // The bottom, the diff of the top, the weights and their gradients.
  EXPECT_EQ(of(net, traffic, "conv").backward, 1536u + 2048 + 2 * 64);
}

TEST(Traffic, IsWhatStepsOnTheHostCost) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  FakeContext fake;
  const Net net(net_param(net_text("1")), fake.context());
  const std::vector<StepTraffic> traffic = step_traffic(net);
  const StepTraffic &lrn = of(net, traffic, "lrn"), &conv = of(net, traffic, "conv"),
                    &cat = of(net, traffic, "cat");
  EXPECT_FALSE(lrn.on_host);
  EXPECT_EQ(lrn.to_device, 1536u);
  EXPECT_EQ(lrn.to_host, 0u);
  EXPECT_TRUE(conv.on_host);
  // The bottom, the diff of the top, and the weights, which the update changes.
  EXPECT_EQ(conv.to_host, 1536u + 2048 + 64);
  EXPECT_EQ(conv.to_device, 64u);  // their gradients
  EXPECT_EQ(cat.to_device, 2048u);
  EXPECT_EQ(placement(conv), "on the host, 0.0036 MB from the device and 0.0001 MB to it");
  EXPECT_EQ(placement(cat), "0.0020 MB to the device");
  EXPECT_EQ(placement({.host_part = "choice of boxes", .to_host = 1500000}),
            "choice of boxes on the host, 1.5 MB from the device");
}

// Here without an update, so that weights and their gradients, 64 bytes each, stay on the host; and
// with what a loss fetches beside its values.
TEST(Traffic, IsWhatMoves) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  for (const bool trains : {false, true}) {
    SCOPED_TRACE(trains);
    FakeContext fake;
    Net net(net_param("force_backward: true" + net_text("0")), fake.context(),
            {.phase = trains ? Phase::train : Phase::test});
    size_t up = 0, down = 0;
    for (int i = 0; i < 3; ++i) {
      const size_t up_before = fake.device().bytes_up, down_before = fake.device().bytes_down;
      test::fill_inputs(net);
      net.forward();
      if (trains) net.backward();
      up = fake.device().bytes_up - up_before;
      down = fake.device().bytes_down - down_before;
    }
    size_t to_device = 0, to_host = 0;
    for (const StepTraffic& step : step_traffic(net)) {
      to_device += step.to_device;
      to_host += step.to_host;
    }
    EXPECT_NEAR(static_cast<double>(to_device), static_cast<double>(up), 200);
    EXPECT_NEAR(static_cast<double>(to_host), static_cast<double>(down), 200);
    EXPECT_GT(up, 3500u);
  }
}

}  // namespace
}  // namespace crema
