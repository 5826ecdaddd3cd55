// Rooms of arrays, whose operands broadcast (layer_support/spread.hpp), are moved or are joined:
// the bodies that kernels of CUDA run.
#include <gtest/gtest.h>

#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/two_sided_run.hpp"

namespace crema::test {
namespace {

std::string of(const char* type, const std::string& settings = "") {
  return text("layer { type: '", type, "' ", settings, " }");
}

class ArrayRooms : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                      "with CREMA_CUDA=OFF";
  }
  static void check(const LayerCase& c) { check_device(c, {1e-6, 1e-5}, GetParam()); }
  const Input x_ = uniform({2, 6, 7, 9}, 0.5, 2);
};

TEST_P(ArrayRooms, Broadcast) {
  const Input x = x_;
  for (const char* operation : {"ADD", "SUB", "MUL", "DIV", "POW", "MIN", "MAX"}) {
    const std::string settings = text("arithmetic_param { operation: ", operation, " }");
    for (const Shape& shape : {Shape{2, 6, 7, 9}, Shape{}, Shape{9}, Shape{6, 1, 1}, Shape{7, 1}}) {
      check({.layer = of("Arithmetic", settings), .bottoms = {x, uniform(shape, 0.5, 2)}});
      check({.layer = of("Arithmetic", settings), .bottoms = {uniform(shape, 0.5, 2), x}});
    }
  }
  check({.layer = of("Where"), .bottoms = {labels({6, 1, 9}, 2), x, uniform({9})}});
  check({.layer = of("Where"), .bottoms = {labels({2, 6, 7, 9}, 2), uniform({7, 1}), x}});
  check({.layer = of("Expand", "expand_param { dim: 3 dim: -1 dim: 40 }"),
         .bottoms = {uniform({6, 1})}});
}

TEST_P(ArrayRooms, Move) {
  const Input x = x_;
  check({.layer = of("Gather", "gather_param { axis: 1 }"), .bottoms = {x, labels({3, 4}, 6)}});
  check({.layer = of("Gather", "gather_param { axis: -1 index: -1 index: 2 index: 8 }"),
         .bottoms = {x}});
  for (const char* mode : {"CONSTANT", "REFLECT", "EDGE", "WRAP"}) {
    const std::string pads = "pad_param { begin: 1 begin: 2 begin: -1 end: 0 end: 3 end: 4 mode: ";
    check({.layer = of("Pad", pads + mode + " }"), .bottoms = {x}});
  }
  check({.layer = of("StridedSlice",
                     "strided_slice_param { axis: 1 axis: 3 begin: 1 begin: 8 end: 9 end: -20 "
                     "step: 2 step: -3 }"),
         .bottoms = {x}});
  check({.layer = of("TopK", "topk_param { k: 3 axis: 1 }"), .bottoms = {x}, .tops = 2});
  check({.layer = of("TopK", "topk_param { k: 2 largest: false }"), .bottoms = {x}});
  for (const char* mode : {"BILINEAR", "NEAREST", "BICUBIC"}) {
    for (const char* padding : {"ZEROS", "BORDER", "REFLECTION"}) {
      check({.layer = of("GridSample",
                         text("grid_sample_param { mode: ", mode, " padding: ", padding, " }")),
             .bottoms = {x, uniform({2, 3, 4, 2}, -1.3, 1.3)}});
    }
  }
}

TEST_P(ArrayRooms, Join) {
  const Input x = x_;
  for (const char* operation :
       {"SUM", "MEAN", "MAX", "MIN", "PROD", "L1", "L2", "SUM_SQUARE", "LOG_SUM", "LOG_SUM_EXP"}) {
    for (const char* axes : {"", "axis: 1", "axis: 0 axis: 2", "axis: 3"}) {
      check({.layer = of("Reduce", text("reduce_param { operation: ", operation, " ", axes, " }")),
             .bottoms = {uniform({2, 6, 7, 9}, 0.9, 1.1)}});
    }
  }
  for (const char* settings : {"axis: 1", "exclusive: true", "axis: 2 reverse: true"})
    check({.layer = of("CumSum", text("cumsum_param { ", settings, " }")), .bottoms = {x}});
  for (const char* settings : {"", "axis: 2", "affine: false"})
    check({.layer = of("RMSNorm", text("rms_norm_param { ", settings, " }")), .bottoms = {x}});
}

INSTANTIATE_TEST_SUITE_P(Types, ArrayRooms, testing::Values(DType::f32, DType::f64),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(Spread, JoinsAxesThatOperandsWalkThroughAlike) {
  const Shape whole{2, 3, 4, 5};
  EXPECT_EQ((spread_of<2>(whole, {whole, whole}).rank), 1);
  EXPECT_EQ((spread_of<2>(whole, {whole, Shape{}}).rank), 1);
  EXPECT_EQ((spread_of<2>(whole, {whole, Shape{5}}).rank), 2);
  EXPECT_EQ((spread_of<2>(whole, {whole, Shape{3, 1, 1}}).rank), 3);
  const Spread<2> spread = spread_of<2>(whole, {whole, Shape{3, 1, 1}});
  EXPECT_EQ(spread.at(59).of[0], 59);
  EXPECT_EQ(spread.at(59).of[1], 2);
  EXPECT_EQ(spread.at(60).of[1], 0);
  EXPECT_EQ(spread.step(0), 1);
  EXPECT_EQ(spread.step(1), 0);
}

}  // namespace
}  // namespace crema::test
