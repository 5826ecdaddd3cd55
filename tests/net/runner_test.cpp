// Runners: one net in several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

/// Everything that a pass may fuse, derive or keep: BatchNorm in the weights, a residual sum, a
/// ReLU in front of a maximum, pooling, a recurrent layer that starts anew, and a product.
constexpr const char* kNet = R"(
  name: 'shared'
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 12 dim: 12 } } }
  layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1'
          convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
  layer { name: 'bn' type: 'BatchNorm' bottom: 'c1' top: 'c1' }
  layer { name: 'scale' type: 'Scale' bottom: 'c1' top: 'c1' scale_param { bias_term: true } }
  layer { name: 'relu' type: 'ReLU' bottom: 'c1' top: 'c1' }
  layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2'
          convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
  layer { name: 'sum' type: 'Eltwise' bottom: 'c2' bottom: 'c1' top: 'sum' }
  layer { name: 'relu2' type: 'ReLU' bottom: 'sum' top: 'sum' }
  layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool'
          pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
          inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
  layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' })";

void fill_input(Net& net, int image) {
  Tensor& x = net.input("x");
  float* const values = x.overwrite<float>();
  for (int64_t i = 0; i < x.count(); ++i)
    values[i] = static_cast<float>((i * 7 + image * 13) % 23) / 23 - 0.5F;
}

std::vector<float> answer(Net& net, int image) {
  fill_input(net, image);
  net.forward();
  const Tensor output = net.output("prob");
  const auto values = output.values<float>();
  return {values.begin(), values.end()};
}

TEST(Runner, ThreadsGiveTheAnswersOfTheNet) {
  Context context({.threads = 1});
  Net net(net_param(kNet), context, {.phase = Phase::test});
  constexpr int kImages = 24, kThreads = 4;
  std::vector<std::vector<float>> expected, found(kImages);
  for (int image = 0; image < kImages; ++image) expected.push_back(answer(net, image));
  EXPECT_NE(expected[0], expected[1]);
  std::vector<Net> runners;
  for (int t = 0; t < kThreads; ++t) runners.push_back(net.runner());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int image = t; image < kImages; image += kThreads)
          found[static_cast<size_t>(image)] = answer(runners[static_cast<size_t>(t)], image);
      });
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(Runner, SharesParametersAndHasActivationsOfItsOwn) {
  Context context({.threads = 1});
  std::optional<Net> net(std::in_place, net_param(kNet), context, NetOptions{.phase = Phase::test});
  const std::vector<float> before = answer(*net, 0);
  Net runner = net->runner();
  EXPECT_EQ(runner.memory().parameters, 0U);
  EXPECT_EQ(runner.memory().activations, net->memory().activations);
  EXPECT_NE(&runner.input("x"), &net->input("x"));
  EXPECT_EQ(runner.steps().size(), net->steps().size());
  // Another size, for one of them alone.
  runner.reshape_input("x", {5, 3, 12, 12});
  answer(runner, 0);
  EXPECT_EQ(runner.output("prob").shape(), (Shape{5, 10}));
  EXPECT_EQ(net->output("prob").shape(), (Shape{2, 10}));
  runner.reshape_input("x", {2, 3, 12, 12});
  EXPECT_EQ(answer(runner, 0), before);
  // What is loaded into one is in all.
  NetParameter weights;
  net->save(weights);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.name() != "ip") continue;
    for (float& value : *layer.mutable_blobs(0)->mutable_data()) value *= -1;
  }
  net->load_weights(weights);
  const std::vector<float> after = answer(*net, 0);
  EXPECT_NE(after, before);
  EXPECT_EQ(answer(runner, 0), after);
  // The graph lives as long as a runner.
  net.reset();
  EXPECT_EQ(answer(runner, 0), after);
  EXPECT_EQ(answer(runner, 0), after);
}

TEST(Runner, NetsThatChangeMoreThanActivationsHaveNone) {
  Context context;
  expect_error([&] { Net(net_param(kNet), context).runner(); }, {"'shared'", "trains", "phase"});
  const Net dummy(net_param("name: 'd' layer { name: 'data' type: 'DummyData' top: 'x' "
                            "dummy_data_param { shape { dim: 2 } } }"),
                  context, {.phase = Phase::test});
  expect_error([&] { dummy.runner(); }, {"layer 'data' (DummyData)", "inputs"});
}

}  // namespace
}  // namespace crema::test
