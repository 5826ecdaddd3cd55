#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase pad(const std::string& settings, const Input& x) {
  return {.layer = text("layer { type: 'Pad' pad_param { ", settings, " } }"), .bottoms = {x}};
}
std::vector<double> padded(const std::string& settings, const Input& x) {
  LayerRun run(pad(settings, x));
  run.forward();
  return run.top(0);
}

TEST(Pad, Modes) {
  const Input x = given({4}, {1, 2, 3, 4});
  const std::string pads = "begin: 2 end: 3 ";
  EXPECT_THAT(padded(pads, x), ElementsAre(0, 0, 1, 2, 3, 4, 0, 0, 0));
  EXPECT_THAT(padded(pads + "value: -7", x), ElementsAre(-7, -7, 1, 2, 3, 4, -7, -7, -7));
  EXPECT_THAT(padded(pads + "mode: REFLECT", x), ElementsAre(3, 2, 1, 2, 3, 4, 3, 2, 1));
  EXPECT_THAT(padded(pads + "mode: EDGE", x), ElementsAre(1, 1, 1, 2, 3, 4, 4, 4, 4));
  EXPECT_THAT(padded(pads + "mode: WRAP", x), ElementsAre(3, 4, 1, 2, 3, 4, 1, 2, 3));
  EXPECT_THAT(padded("begin: 3 end: 0 mode: WRAP", given({2}, {1, 2})), ElementsAre(2, 1, 2, 1, 2));
}

TEST(Pad, NegativeOnesCutOff) {
  const Input x = given({4}, {1, 2, 3, 4});
  EXPECT_THAT(padded("begin: -1 end: -2", x), ElementsAre(2));
  EXPECT_THAT(padded("begin: -1 end: 1", x), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(padded("begin: 1 end: -3", x), ElementsAre(0, 1));
  EXPECT_THAT(padded("begin: -4 end: 1 value: 5", x), ElementsAre(5));
}

TEST(Pad, FewerValuesAreThoseOfTheLastAxes) {
  LayerRun run(pad("begin: 1 begin: 0 end: 0 end: 1 value: 9", given({1, 2, 2}, {1, 2, 3, 4})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 3, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(9, 9, 9, 1, 2, 9, 3, 4, 9));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(4, 5, 7, 8));
}

TEST(Pad, CopiesAddUpInTheGradient) {
  LayerRun run(pad("begin: 2 end: 3 mode: REFLECT", uniform({4})));
  run.forward();
  run.set_top_diff(0, {1, 10, 100, 1000, 2, 20, 200, 2000, 3});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(103, 3010, 203, 20));
}

TEST(Pad, GradientsAndEngines) {
  for (const char* mode : {"CONSTANT", "REFLECT", "EDGE", "WRAP"}) {
    const std::string of_mode = text(" mode: ", mode);
    const std::pair<const char*, Shape> cases[] = {
        {"begin: 2 end: 1", {5}},
        {"begin: 1 begin: 2 end: 0 end: 1", {2, 3, 4, 5}},
        {"begin: 1 begin: 0 begin: 2 end: 1 end: 0 end: 0", {2, 2, 4, 3}},
        {"begin: 2 begin: 0 end: 1 end: 0", {3, 4, 5}},
        {"begin: -1 begin: 2 end: 2 end: -1", {4, 5}}};
    for (const auto& [pads, shape] : cases) {
      check_gradients(pad(pads + of_mode, uniform(shape)));
      check_engines(pad(pads + of_mode, uniform(shape)));
    }
    check_engines(pad("begin: 3 begin: 5 end: 2 end: 4" + of_mode, uniform({90, 701})),
                  {1e-4, 1e-4});
  }
}

TEST(Pad, EmptyBatchesAndNewShapes) {
  LayerRun run(pad("begin: 1 end: 1 mode: EDGE", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 1}, Shape{2, 3, 2}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape()[-1], shape[-1] + 2);
  }
  EXPECT_THAT(padded("begin: 1 end: 1 value: 3", uniform({0})), ElementsAre(3, 3));
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(Pad, Errors) {
  refuses(pad("begin: 1", uniform({3})), {"1 values of begin", "0 of end"});
  refuses(pad("begin: 1 begin: 1 end: 1 end: 1", uniform({3})), {"2 values of begin", "(3)"});
  refuses(pad("begin: -2 end: -2", uniform({3})), {"begin -2 and end -2", "cut off"});
  refuses(pad("begin: -4 end: 4", uniform({3})), {"cut off"});
  refuses(pad("begin: 3 end: 0 mode: REFLECT", uniform({3})), {"REFLECT", "2"});
  refuses(pad("begin: 1 end: 0 mode: EDGE", uniform({0})), {"no element"});
  refuses(pad("begin: 1 end: 0 mode: WRAP value: 1", uniform({3})), {"value 1", "CONSTANT"});
  refuses(pad("begin: 9223372036854775807 end: 1", uniform({3})), {"2^40"});
}

}  // namespace
}  // namespace crema::test
