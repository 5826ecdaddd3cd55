#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/net_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerRun;
using test::next_values;
using test::params_of;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;

Net net_of(const std::string& layers, Context& context, NetOptions options = {}) {
  return Net(test::net_param(layers), context, std::move(options));
}

TEST(DummyData, TopsOfGivenShapes) {
  Context context;
  Net net = net_of(
      "layer { type: 'DummyData' name: 'd' top: 'a' top: 'b' dummy_data_param {"
      " shape { dim: 2 dim: 0 dim: 3 } shape { dim: 4 }"
      " data_filler { type: 'constant' value: 3 } } }"
      "layer { type: 'DummyData' name: 'e' top: 'c' dummy_data_param { shape { } } }"
      "layer { type: 'DummyData' name: 'f' top: 'g' top: 'h' dummy_data_param {"
      " num: 1 num: 2 channels: 3 height: 4 width: 5 width: 6 } }",
      context);
  net.forward();
  EXPECT_EQ(net.blob("a").shape(), (Shape{2, 0, 3}));
  EXPECT_THAT(test::values_of(net.output("b")), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(test::values_of(net.output("c")), ElementsAre(0));
  EXPECT_EQ(net.blob("g").shape(), (Shape{1, 3, 4, 5}));
  EXPECT_EQ(net.blob("h").shape(), (Shape{2, 3, 4, 6}));
  EXPECT_THAT(test::values_of(net.output("h")), Each(0));
}

// As with the published layer, programs may use a constant top as an input.
TEST(DummyData, ConstantsAreFilledOnce) {
  Context context;
  Net net = net_of(
      "layer { type: 'DummyData' name: 'd' top: 'a' top: 'r' dummy_data_param { shape { dim: 2 }"
      " data_filler { value: 1 } data_filler { type: 'uniform' } } }"
      "layer { type: 'Input' name: 'x' top: 'x' input_param { shape { dim: 1 } } }"
      "layer { type: 'Power' name: 'p' bottom: 'a' top: 'p' power_param { scale: 10 } }",
      context, {.phase = Phase::test});
  net.forward();
  EXPECT_THAT(test::values_of(net.output("p")), ElementsAre(10, 10));
  net.blob("a").data.overwrite<float>()[1] = 7;
  net.forward();
  EXPECT_THAT(test::values_of(net.output("p")), ElementsAre(10, 70));
  // Another plan, for another shape, and back.
  for (const int64_t size : {5, 1}) {
    net.reshape_input("x", {size});
    net.forward();
    EXPECT_THAT(test::values_of(net.output("p")), ElementsAre(10, 70));
  }
}

TEST(DummyData, OthersAreDrawnEachPassFromTheRunState) {
  const std::string layer =
      "layer { type: 'DummyData' name: 'd' top: 'a' top: 'b' dummy_data_param {"
      " shape { dim: 3 dim: 5 } data_filler { type: 'uniform' min: 2 max: 3 } } }";
  const auto drawn = [&](uint64_t seed, uint64_t iteration, uint64_t pass, int64_t rank, int top) {
    LayerRun run({.layer = layer, .seed = seed});
    run.state().iteration = iteration;
    run.state().pass = pass;
    run.state().rank = rank;
    run.forward();
    return run.top(top);
  };
  const auto first = drawn(1, 0, 0, 0, 0);
  EXPECT_THAT(first, Each(AllOf(Ge(2), Lt(3))));
  EXPECT_EQ(drawn(1, 0, 0, 0, 0), first);
  EXPECT_NE(drawn(2, 0, 0, 0, 0), first);
  EXPECT_NE(drawn(1, 1, 0, 0, 0), first);
  EXPECT_NE(drawn(1, 0, 1, 0, 0), first);
  EXPECT_NE(drawn(1, 0, 0, 1, 0), first);
  EXPECT_NE(drawn(1, 0, 0, 0, 1), first);
  EXPECT_NE(drawn(1, 1, 0, 0, 0), drawn(1, 0, 1, 0, 0));
}

TEST(DummyData, InF64) {
  LayerRun run({.layer = "layer { type: 'DummyData' dummy_data_param { shape { dim: 1000 }"
                         " data_filler { type: 'gaussian' mean: 4 std: 2 } } }"},
               {.dtype = DType::f64});
  run.forward();
  double sum = 0;
  for (const double x : run.top(0)) sum += x;
  EXPECT_NEAR(sum / 1000, 4, 0.3);
  EXPECT_TRUE(run.layer().is_source());
}

TEST(DummyData, SettingsThatDoNotFitAreErrors) {
  const auto fails = [](const std::string& settings,
                        std::initializer_list<std::string_view> words) {
    expect_error(
        [&] {
          LayerRun run({.layer = "layer { type: 'DummyData' top: 'a' top: 'b' top: 'c' "
                                 "dummy_data_param { " +
                                 settings + " } }"});
        },
        words);
  };
  fails("", {"gives 0 shape for 3 tops", "one for all"});
  fails("shape { dim: 1 } shape { dim: 2 }", {"gives 2 shape for 3 tops"});
  fails("shape { dim: 1 } data_filler { } data_filler { }", {"2 data_filler for 3 tops"});
  fails("shape { dim: 1 } num: 1", {"shape, and num"});
  fails("num: 1 channels: 1 height: 1", {"0 width for 3 tops"});
  fails("num: 1 num: 2 channels: 1 height: 1 width: 1", {"2 num for 3 tops"});
  fails("shape { dim: 1 } data_filler { type: 'unifrom' }", {"'unifrom'", "'uniform'"});
  fails("shape { dim: -1 }", {"-1"});
}

}  // namespace
}  // namespace crema
