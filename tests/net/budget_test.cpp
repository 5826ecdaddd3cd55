// NetOptions::memory_budget: what is dropped after forward, and that results stay the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::net_param;
using test::params_of;
using ::testing::Contains;
using ::testing::HasSubstr;

size_t planned(const Net& net) {
  const MemoryPlan memory = net.memory();
  return memory.activations + memory.parameters + memory.engines;
}

std::set<std::string> recomputed(const Net& net) {
  std::set<std::string> names;
  for (const NetStep& step : net.steps()) {
    if (step.recomputed) names.insert(step.name);
  }
  return names;
}

std::string convolution(const std::string& name, const std::string& bottom, int outputs,
                        const std::string& params = "") {
  return text("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '", name,
              "' ", params, " convolution_param { num_output: ", outputs,
              " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }\n");
}

std::string in_place(const std::string& type, const std::string& name) {
  return text("layer { name: '", name, "/", type, "' type: '", type, "' bottom: '", name,
              "' top: '", name, "' }\n");
}

const std::string kInputs =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 20 dim: 20 "
    "} } }\n"
    "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 4 } } }\n";

std::string loss(const std::string& bottom) {
  return text("layer { name: 'ip' type: 'InnerProduct' bottom: '", bottom,
              "' top: 'ip' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } "
              "} }\n"
              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: "
              "'loss' }\n");
}

/// Blocks of a residual net.
std::string chain(int blocks) {
  std::string prototxt = kInputs + convolution("b0", "x", 8);
  for (int i = 1; i <= blocks; ++i) {
    const std::string before = text("b", i - 1), conv = text("c", i), block = text("b", i);
    prototxt += convolution(conv, before, 8) + in_place("BatchNorm", conv) +
                in_place("Scale", conv) + in_place("ReLU", conv) +
                convolution(conv + "b", conv, 8) + in_place("BatchNorm", conv + "b") +
                text("layer { name: '", block, "' type: 'Eltwise' bottom: '", before, "' bottom: '",
                     conv, "b' top: '", block, "' }\n") +
                in_place("ReLU", block);
  }
  return prototxt + loss(text("b", blocks));
}

/// Blocks with Dropout, statistics, layers in place, Concat, Slice, and a convolution whose
/// parameters several layers have.
std::string mixed(int blocks) {
  const std::string shared = "param { name: 'w' } param { name: 'b' }";
  const auto layer = [](const std::string& type, const std::string& name,
                        const std::vector<std::string>& bottoms, const std::string& more = "") {
    std::string prototxt = text("layer { name: '", name, "' type: '", type, "' ");
    for (const std::string& bottom : bottoms) prototxt += text("bottom: '", bottom, "' ");
    return text(prototxt, more.empty() ? text("top: '", name, "'") : more, " }\n");
  };
  std::string prototxt = kInputs, last = "x";
  for (int i = 1; i <= blocks; ++i) {
    const auto name = [&](const std::string& each) { return text(each, i); };
    const std::string c1 = name("a"), c2 = name("b"), c3 = name("c"), c4 = name("d");
    prototxt +=
        convolution(c1, last, 8) + in_place("BatchNorm", c1) + in_place("ReLU", c1) +
        layer("Dropout", name("drop"), {c1}) + convolution(c2, name("drop"), 8, shared) +
        layer("TanH", name("tanh"), {c2}) + convolution(c3, name("tanh"), 8, shared) +
        in_place("BatchNorm", c3) + in_place("ReLU", c3) +
        layer("Concat", name("cat"), {c1, c3, name("tanh")}) + convolution(c4, name("cat"), 8) +
        in_place("Dropout", c4) +
        layer("Slice", name("slice"), {c4}, text("top: '", name("s"), "' top: '", name("t"), "'")) +
        layer("Eltwise", name("prod"), {name("s"), name("t")},
              text("top: '", name("prod"), "' eltwise_param { operation: PROD }")) +
        layer("Pooling", name("pool"), {name("prod")},
              text("top: '", name("pool"), "' pooling_param { kernel_size: 3 pad: 1 }"));
    last = name("pool");
  }
  return prototxt + loss(last);
}

/// LSTM layers, whose states go on from batch to batch.
std::string recurrent() {
  std::string prototxt =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 6 dim: 4 dim: 8 } } }\n"
      "layer { name: 'cont' type: 'Input' top: 'cont' input_param { shape { dim: 6 dim: 4 } } }\n"
      "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 6 } } }\n";
  std::string bottom = "x";
  for (const std::string name : {"l1", "l2", "l3"}) {
    prototxt += text("layer { name: '", name, "' type: 'LSTM' bottom: '", bottom,
                     "' bottom: 'cont' top: '", name,
                     "' recurrent_param { num_output: 32 weight_filler { type: 'uniform' min: -0.2 "
                     "max: 0.2 } } }\n"
                     "layer { name: 't",
                     name, "' type: 'TanH' bottom: '", name, "' top: 't", name, "' }\n");
    bottom = "t" + name;
  }
  return prototxt + loss(bottom);
}

/// Losses, gradients and parameters of three passes.
std::vector<double> results_of(Net& net) {
  std::vector<double> results;
  for (int pass = 0; pass < 3; ++pass) {
    fill_inputs(net);
    if (net.has_blob("cont")) net.input("cont").fill(1);
    results.push_back(net.forward());
    net.clear_gradients();
    net.backward();
    for (const double value : gradients_of(net)) results.push_back(value);
    for (const double value : params_of(net)) results.push_back(value);
  }
  return results;
}

/// Nets with ever smaller budgets, down to the least possible one, have the same bits. Returns the
/// names of all steps that were computed again in one of them.
std::set<std::string> check_same_bits(const std::string& text, const NetOptions& options = {}) {
  Context context({.tune = false});
  Net plain(net_param(text), context, options);
  const std::vector<double> expected = results_of(plain);
  EXPECT_TRUE(recomputed(plain).empty());
  std::set<std::string> all;
  int fitting = 0;
  for (double share = 0.95; share > 0; share -= 0.1) {
    const size_t saved =
        static_cast<size_t>((1 - share) * static_cast<double>(plain.memory().activations));
    const size_t budget = planned(plain) - saved;
    try {
      NetOptions less = options;
      less.memory_budget = budget;
      Net net(net_param(text), context, less);
      EXPECT_LE(planned(net), budget);
      EXPECT_EQ(results_of(net), expected) << share;
      EXPECT_FALSE(recomputed(net).empty());
      all.merge(recomputed(net));
      ++fitting;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("smallest plan found"));
      break;
    }
  }
  EXPECT_GE(fitting, 2);
  return all;
}

TEST(Budget, DropsNothingIfTheNetFits) {
  Context context({.tune = false});
  Net plain(net_param(chain(3)), context);
  Net net(net_param(chain(3)), context, {.memory_budget = planned(plain)});
  EXPECT_EQ(planned(net), planned(plain));
  EXPECT_TRUE(recomputed(net).empty());
  EXPECT_THAT(net.notes(), Contains(HasSubstr("nothing is dropped")));
}

TEST(Budget, ResultsHaveTheSameBits) {
  const std::set<std::string> all = check_same_bits(mixed(4));
  for (const char* name : {"a2/BatchNorm", "drop2", "b2", "cat2"}) {
    EXPECT_THAT(all, Contains(name));
  }
}

TEST(Budget, ResultsOfAResidualNetHaveTheSameBits) {
  const std::set<std::string> all = check_same_bits(chain(6));
  EXPECT_THAT(all, Contains("c2"));
  Context context({.tune = false});
  // A layer with others in its tail is computed again as a whole.
  bool fused = false;
  Net net(net_param(chain(6)), context);
  for (const LayerSummary& row : net.summary()) fused = fused || all.contains(row.fused_into);
  EXPECT_TRUE(fused);
}

// Nearly all layers have conversions between them.
TEST(Budget, ResultsOfANetOf16BitActivationsHaveTheSameBits) {
  check_same_bits(chain(6), {.activations = DType::bf16});
}

TEST(Budget, ResultsOfRecurrentLayersHaveTheSameBits) {
  const std::set<std::string> all = check_same_bits(recurrent());
  EXPECT_THAT(all, Contains("l1"));
}

TEST(Budget, DeepChainsNeedAThirdOfTheirActivations) {
  Context context;  // with measured seconds
  const NetParameter param = net_param(chain(30));
  Net plain(param, context);
  const size_t third = plain.memory().activations / 3;
  const size_t budget = planned(plain) - plain.memory().activations + third;
  Net net(param, context, {.memory_budget = budget}),
      again(param, context, {.memory_budget = budget});
  EXPECT_LE(net.memory().activations, third);
  EXPECT_EQ(recomputed(again), recomputed(net));
  EXPECT_THAT(net.notes(), Contains(HasSubstr("computed again")));
  // As much as is needed, and no more: most of the block outputs or convolutions stay.
  EXPECT_LT(recomputed(net).size(), net.steps().size());
}

TEST(Budget, CountsCopiesOfTheParameters) {
  Context context({.tune = false});
  const NetParameter param = net_param(chain(6));
  Net plain(param, context);
  const size_t copies = 3 * plain.params().data().bytes();
  Net fits(param, context, {.memory_budget = planned(plain) + copies, .parameter_copies = 3});
  EXPECT_TRUE(recomputed(fits).empty());
  Net less(param, context, {.memory_budget = planned(plain) + copies - 1, .parameter_copies = 3});
  EXPECT_FALSE(recomputed(less).empty());
}

TEST(Budget, RefusesWhatCannotFit) {
  Context context({.tune = false});
  const NetParameter param = net_param(chain(3));
  expect_error([&] { Net(param, context, {.memory_budget = 1000}); },
               {"memory budget of 1.0 kB is too small", "needs", "smallest plan found",
                "not activations", "smaller batch"});
  expect_error([&] { Net(param, context, {.phase = Phase::test, .memory_budget = 1000}); },
               {"memory budget", "does not train"});
}

// The choice is that of one set of shapes.
TEST(Budget, EachShapeHasItsOwnChoice) {
  Context context({.tune = false});
  const NetParameter param = net_param(chain(6));
  Net plain(param, context);
  const size_t plain_bytes = planned(plain);
  Net net(param, context, {.memory_budget = plain_bytes});
  const auto take = [](Net& of, int64_t batch) {
    of.reshape_input("x", {batch, 3, 20, 20});
    of.reshape_input("label", {batch});
    of.reshape();
  };
  for (const int64_t batch : {8, 4, 8}) {
    take(net, batch);
    take(plain, batch);
    EXPECT_EQ(recomputed(net).empty(), batch == 4);
    EXPECT_LE(planned(net), plain_bytes);
    EXPECT_EQ(results_of(net), results_of(plain)) << batch;
  }
  expect_error([&] { take(net, 400); }, {"memory budget"});
  take(net, 4);
  EXPECT_TRUE(recomputed(net).empty());
}

}  // namespace
}  // namespace crema
