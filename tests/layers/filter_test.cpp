#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsSupersetOf;

LayerCase filter(const std::vector<Input>& bottoms) {
  return {.layer = "layer { type: 'Filter' }",
          .bottoms = bottoms,
          .tops = static_cast<int>(bottoms.size()) - 1};
}

TEST(Filter, KeepsWhatIsSelected) {
  LayerRun run(filter({given({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), given({4}, {10, 20, 30, 40}),
                       given({4, 1, 1}, {0, 0.5, 0, -1})}));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2}));
  EXPECT_THAT(run.top(0), ElementsAre(3, 4, 7, 8));
  EXPECT_THAT(run.top(1), ElementsAre(20, 40));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.set_top_diff(1, {5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 1, 2, 0, 0, 3, 4));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(0, 5, 0, 6));
  run.backward({false, true, false});
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(0, 5, 0, 6));
}

TEST(Filter, GradientsAndEngines) {
  const Input some = given({5}, {1, 0, 2, 0, 1});
  check_gradients(filter({uniform({5, 3, 2}), uniform({5}), some}));
  check_engines(filter({uniform({5, 3, 2}), uniform({5}), some}));
  EXPECT_THAT(check_engines(filter({uniform({5, 21, 3, 5}), given({5, 1, 1, 1}, some.values)})),
              IsSupersetOf({"reference contiguous", "reference channels_last", "reference blocked8",
                            "reference blocked16"}));
  check_engines(filter({uniform({5, 40001}), some}));
}

TEST(Filter, NothingSelectedAndEmptyBatches) {
  LayerRun run(filter({uniform({3, 2}), given({3}, {0, 0, 0})}));
  for (int pass = 0; pass < 2; ++pass) {
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2}));
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), Each(0));
  }
  run.reshape({uniform({0, 2}), uniform({0})});
  run.forward();
  run.backward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2}));
}

TEST(Filter, FollowsTheSelectorInEachPass) {
  LayerRun run(filter({given({3}, {1, 2, 3}), given({3}, {1, 1, 1})}));
  for (const auto& selector :
       {std::vector<double>{0, 1, 0}, std::vector<double>{1, 1, 1}, std::vector<double>{1, 0, 1}}) {
    run.bottom_values(1) = selector;
    run.forward();
    std::vector<double> expected;
    for (size_t i = 0; i < 3; ++i) {
      if (selector[i] != 0) expected.push_back(static_cast<double>(i + 1));
    }
    EXPECT_EQ(run.top(0), expected);
  }
}

constexpr const char* kNet = R"(
    layer { name: "x" type: "Input" top: "x" top: "label" top: "selector"
            input_param { shape { dim: 6 dim: 4 } shape { dim: 6 } shape { dim: 6 } } }
    layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "a"
            inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
    layer { name: "filter" type: "Filter" bottom: "a" bottom: "label" bottom: "selector"
            top: "kept" top: "kept_label" }
    layer { name: "relu" type: "ReLU" bottom: "kept" top: "kept" }
    layer { name: "ip2" type: "InnerProduct" bottom: "kept" top: "b"
            inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "b" bottom: "kept_label" top: "loss" })";

void select(Net& net, const std::vector<double>& selector) {
  double* const values = net.input("selector").overwrite<double>();
  std::copy(selector.begin(), selector.end(), values);
}

TEST(Filter, LayersBehindItFollow) {
  for (const bool keep_all : {false, true}) {
    Context context;
    Net net(net_param(kNet), context, {.dtype = DType::f64, .keep_all = keep_all});
    fill_inputs(net);
    for (const auto& selector : {std::vector<double>{1, 0, 1, 1, 0, 0},
                                 {0, 0, 0, 0, 0, 1},
                                 {1, 1, 1, 1, 1, 1},
                                 {0, 1, 0, 0, 1, 0}}) {
      select(net, selector);
      check_net_gradients(net);
    }
  }
}

// Caffe kept all items of the batch before, or none.
TEST(Filter, WithNothingSelectedTheNetGoesOn) {
  Context context;
  Net net(net_param(kNet), context, {.dtype = DType::f64});
  fill_inputs(net);
  for (const double selected : {0, 1, 0}) {
    select(net, std::vector<double>(6, selected));
    net.clear_gradients();
    EXPECT_EQ(net.forward() == 0, selected == 0);
    net.backward();
    double sum = 0;
    for (const double value : gradients_of(net)) sum += std::abs(value);
    EXPECT_EQ(sum == 0, selected == 0);
  }
}

// Labels beside the features would be rounded.
TEST(Filter, TakesBf16WithOneBottomOnly) {
  const std::string net = R"(
      layer { name: "x" type: "Input" top: "x" top: "label" top: "selector"
              input_param { shape { dim: 6 dim: 4 } shape { dim: 6 } shape { dim: 6 } } }
      layer { name: "act" type: "Sigmoid" bottom: "x" top: "a" }
      layer { name: "filter" type: "Filter" bottom: "a" )";
  const auto type_of = [&](const std::string& more) {
    Context context;
    const Net built(net_param(net + more), context, {.activations = DType::bf16});
    for (const NetStep& step : built.steps()) {
      if (step.type == "Filter") return step.bottom_format;
    }
    return std::string();
  };
  const std::string after = "layer { name: 's' type: 'Silence' bottom: 'b' } ";
  EXPECT_THAT(type_of("bottom: 'selector' top: 'b' } " + after), testing::StartsWith("bf16"));
  EXPECT_THAT(type_of("bottom: 'label' bottom: 'selector' top: 'b' top: 'c' } " + after),
              testing::Not(testing::StartsWith("bf16")));
}

TEST(Filter, Errors) {
  LayerRun nan(filter({uniform({2, 3}), given({2}, {1, std::nan("")})}));
  expect_error([&] { nan.forward(); }, {"selector 'bottom1'", "NaN", "item 1"});
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(c); }, words);
  };
  refuses(filter({uniform({2, 3}), uniform({2, 3})}), {"'bottom1' (2x3)", "one value an item"});
  refuses(filter({uniform({2, 3}), uniform({})}), {"'bottom1' (scalar)"});
  refuses(filter({uniform({2, 3}), uniform({3})}), {"'bottom0' (2x3)", "'bottom1' (3)"});
  refuses(filter({uniform({}), uniform({1})}), {"'bottom0' (scalar)"});
  LayerCase tops = filter({uniform({2, 3}), uniform({2})});
  tops.tops = 2;
  refuses(tops, {"2 bottoms and 2 tops"});
  LayerRun run(filter({uniform({2, 3}), uniform({2})}));
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
}

}  // namespace
}  // namespace crema::test
