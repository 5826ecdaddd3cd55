// What the plan does must not show: fused or not, sharing memory or not, in whatever formats, a net
// computes the same; and memory stays flat.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::net_param;
using test::values_of;

// Residual blocks, in-place chains, concatenation and a head: what real nets are made of.
const std::string kNet = R"(
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 17 dim: 15 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 12 kernel_size: 3 stride: 2 weight_filler { type: "msra" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
        convolution_param { num_output: 12 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "sum" type: "Eltwise" bottom: "conv1" bottom: "conv2" top: "sum" }
layer { name: "relu3" type: "ReLU" bottom: "sum" top: "sum" }
layer { name: "conv3" type: "Convolution" bottom: "sum" top: "conv3"
        convolution_param { num_output: 20 kernel_size: 1 weight_filler { type: "msra" } } }
layer { name: "cat" type: "Concat" bottom: "conv3" bottom: "sum" top: "cat" }
layer { name: "pool" type: "Pooling" bottom: "cat" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "lrn" type: "LRN" bottom: "pool" top: "lrn" }
layer { name: "drop" type: "Dropout" bottom: "lrn" top: "lrn" }
layer { name: "ip" type: "InnerProduct" bottom: "lrn" top: "ip"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

struct Result {
  double loss;
  std::vector<double> scores, gradients;
};

Result run(Net& net) {
  fill_inputs(net);
  Result result;
  result.loss = net.forward();
  net.clear_gradients();
  net.backward();
  result.gradients = gradients_of(net);
  return result;
}

Result run(const NetOptions& options, const ContextOptions& where = {}) {
  Context context(where);
  Net net(net_param(kNet), context, options);
  return run(net);
}

void expect_near(const Result& a, const Result& b, double tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    ASSERT_NEAR(a.gradients[i], b.gradients[i], tolerance * (1 + std::abs(b.gradients[i]))) << i;
  }
}

TEST(Plan, SharingMemoryChangesNothing) {
  const Result kept = run({.fuse = false, .keep_all = true}, {.engine = "reference"});
  const Result shared = run({.fuse = false}, {.engine = "reference"});
  EXPECT_EQ(kept.loss, shared.loss);
  EXPECT_EQ(kept.gradients, shared.gradients);
}

TEST(Plan, FusionAndEnginesChangeOnlyRounding) {
  const Result plain = run({.dtype = DType::f64, .fuse = false, .keep_all = true});
  expect_near(run({.dtype = DType::f64, .fuse = true}), plain, 1e-9);
  expect_near(run({.fuse = false}, {.engine = "reference"}), plain, 1e-4);
  expect_near(run({.fuse = true}, {.engine = "reference"}), plain, 1e-4);
  expect_near(run({.fuse = true}), plain, 1e-4);
  expect_near(run({.fuse = true}, {.tune = false}), plain, 1e-4);
}

// max(relu(x)) is relu(max(x)), and there are fewer maxima.
TEST(Plan, ActivationsGoBehindMaxima) {
  const auto prototxt = [](const std::string& relu, const std::string& pool) {
    return text(R"(
layer { name: "x" type: "Input" top: "x" top: "y" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } shape { dim: 2 dim: 5 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" convolution_param { num_output: 5 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "relu" relu_param { )",
                relu, R"( } }
layer { name: "pool" type: "Pooling" bottom: "relu" top: "pool" pooling_param { kernel_size: 3 stride: 2 )",
                pool, R"( } }
layer { name: "loss" type: "EuclideanLoss" bottom: "pool" bottom: "y" top: "loss" })");
  };
  const auto fused_into = [](Net& net) {
    for (const auto& row : net.summary()) {
      if (row.name == "relu") return row.fused_into;
    }
    return std::string();
  };
  struct Case {
    const char *relu, *pool, *into;
    std::vector<std::string> keep = {};
  };
  for (const Case& c : {Case{"", "", "pool"}, Case{"", "pool: AVE", "conv"},
                        Case{"negative_slope: 0.1", "", "conv"}, Case{"", "", "", {"relu"}}}) {
    SCOPED_TRACE(text(c.relu, "|", c.pool, "|", c.into));
    Context context;
    const NetParameter param = net_param(prototxt(c.relu, c.pool));
    const auto options = [&](bool fuse) {
      return NetOptions{.phase = Phase::train, .dtype = DType::f64, .fuse = fuse, .keep = c.keep};
    };
    Net fused(param, context, options(true)), plain(param, context, options(false));
    EXPECT_EQ(fused_into(fused), c.keep.empty() ? c.into : "conv");
    expect_near(run(fused), run(plain), 1e-12);
  }
  Context context;
  Net net(net_param(prototxt("", "")), context, {.phase = Phase::train});
  net.forward();
  expect_error([&] { net.blob("relu"); }, {"'relu'", "pool"});
}

TEST(Plan, TwoRunsAreBitEqual) {
  const Result first = run({}, {.tune = false}), second = run({}, {.tune = false});
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST(Plan, SharingSavesMemory) {
  Context context;
  for (Phase phase : {Phase::train, Phase::test}) {
    Net net(net_param(kNet), context, {.phase = phase});
    EXPECT_LT(net.memory().activations, net.memory().activations_unshared);
    EXPECT_GT(net.memory().parameters, 0U);
  }
  Net train(net_param(kNet), context, {.phase = Phase::train});
  Net test(net_param(kNet), context, {.phase = Phase::test});
  EXPECT_LT(test.memory().activations, train.memory().activations);
}

TEST(Plan, FusedLayersAreReportedAndTheirBlobsExplained) {
  Context context;
  Net net(net_param(kNet), context, {.phase = Phase::test});
  bool fused = false;
  for (const auto& row : net.summary()) fused = fused || !row.fused_into.empty();
  EXPECT_TRUE(fused);

  const std::string text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "relu" })";
  Net small(net_param(text), context, {.phase = Phase::test});
  expect_error([&] { small.blob("ip"); }, {"'ip'", "fused", "keep"});
  Net kept(net_param(text), context, {.phase = Phase::test, .keep = {"ip"}});
  kept.forward();
  EXPECT_EQ(kept.blob("ip").shape(), (Shape{1, 2}));
}

TEST(Plan, AKeptBlobSurvivesThePass) {
  Context context;
  Net all(net_param(kNet), context, {.phase = Phase::test, .fuse = false, .keep_all = true});
  Net one(net_param(kNet), context, {.phase = Phase::test, .keep = {"conv1"}});
  for (Net* net : {&all, &one}) {
    fill_inputs(*net);
    net->forward();
  }
  const auto expected = values_of(all.output("conv1")), actual = values_of(one.output("conv1"));
  ASSERT_EQ(expected.size(), actual.size());
  // BatchNorm is folded into the weights, so sums of terms of hundreds are rounded differently.
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-6 * largest);
  }
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Nets fed images of changing size grew without bound in older toolkits.
TEST(Plan, MemoryStaysFlatOverReshapes) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "needs a build without AddressSanitizer, which keeps freed memory: set no CREMA_SANITIZE";
#endif
  Context context({.tune = false});
  Net net(net_param(kNet), context, {.phase = Phase::test});
  auto use = [&](int64_t batch) {
    net.reshape_input("data", {batch, 3, 17, 15});
    net.reshape_input("label", {batch});
    fill_inputs(net);
    net.forward();
  };
  for (int i = 0; i < 20; ++i) use(1 + i % 8);
  const long before = peak_kilobytes();
  for (int i = 0; i < 1000; ++i) use(1 + i % 8);
  EXPECT_LT(peak_kilobytes() - before, 8 * 1024);
}

TEST(Plan, ReshapedNetsComputeAsFreshOnes) {
  Context context({.tune = false});
  Net reshaped(net_param(kNet), context, {.phase = Phase::test});
  fill_inputs(reshaped);
  reshaped.forward();
  for (int64_t batch : {5, 1, 2}) {
    reshaped.reshape_input("data", {batch, 3, 17, 15});
    reshaped.reshape_input("label", {batch});
    std::string text = kNet;
    text.replace(text.find("dim: 2 dim: 3"), 6, "dim: " + std::to_string(batch));
    text.replace(text.find("shape { dim: 2 }"), 16, "shape { dim: " + std::to_string(batch) + " }");
    Net fresh(net_param(text), context, {.phase = Phase::test});
    fill_inputs(reshaped);
    fill_inputs(fresh);
    EXPECT_EQ(reshaped.forward(), fresh.forward()) << batch;
  }
}

TEST(Plan, NetsThatShareParametersRunInThreads) {
  Context context({.threads = 1, .tune = false});
  Net owner(net_param(kNet), context, {.phase = Phase::test});
  fill_inputs(owner);
  const double expected = owner.forward();
  constexpr int kThreads = 4;
  std::vector<double> losses(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Context own({.threads = 1, .tune = false});
      Net net(net_param(kNet), own, {.phase = Phase::test, .share_params_with = &owner});
      fill_inputs(net);
      for (int i = 0; i < 20; ++i) losses[static_cast<size_t>(t)] = net.forward();
    });
  }
  for (auto& thread : threads) thread.join();
  for (double loss : losses) EXPECT_EQ(loss, expected);
}

TEST(Plan, ANetBuiltInOneThreadRunsInAnother) {
  Context context;
  Net net(net_param(kNet), context, {.phase = Phase::test});
  fill_inputs(net);
  const double here = net.forward();
  double there = 0;
  std::thread([&] { there = net.forward(); }).join();
  EXPECT_EQ(here, there);
}

}  // namespace
}  // namespace crema
