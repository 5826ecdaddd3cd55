#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

TEST(Input, OneShapeServesAllTops) {
  LayerRun run(
      {.layer =
           R"(layer { type: "Input" top: "a" top: "b" input_param { shape { dim: 2 dim: 3 } } })",
       .bottoms = {}});
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2, 3}));
}

TEST(Input, EachTopMayHaveItsShape) {
  LayerRun run({.layer = R"(layer { type: "Input" top: "a" top: "b"
                            input_param { shape { dim: 2 dim: 3 } shape { dim: 5 } } })",
                .bottoms = {}});
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{5}));
}

TEST(Input, WithoutAShapeLeavesThatOfTheCaller) {
  LayerRun run({.layer = R"(layer { type: "Input" top: "a" })", .bottoms = {}});
  run.top_blob(0).reshape({4, 2});
  std::vector<Blob*> tops = {&run.top_blob(0)};
  run.layer().reshape({}, tops);
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{4, 2}));
}

TEST(Input, ForwardKeepsTheValues) {
  LayerRun run({.layer = R"(layer { type: "Input" top: "a" input_param { shape { dim: 2 } } })",
                .bottoms = {}});
  float* values = run.top_blob(0).data.overwrite<float>();
  values[0] = 3;
  values[1] = 4;
  std::vector<Blob*> tops = {&run.top_blob(0)};
  run.kernel().forward({}, tops);
  EXPECT_EQ(run.top_blob(0).data.at(0), 3);
  EXPECT_EQ(run.top_blob(0).data.at(1), 4);
}

TEST(Input, AnotherNumberOfShapesIsAnError) {
  expect_error(
      [] {
        LayerRun({.layer = R"(layer { type: "Input" top: "a" top: "b" top: "c"
                              input_param { shape { dim: 2 } shape { dim: 5 } } })",
                  .bottoms = {}});
      },
      {"2 shapes for 3 tops"});
  expect_error(
      [] {
        LayerRun({.layer = R"(layer { type: "Input" top: "a" input_param { shape { dim: -2 } } })",
                  .bottoms = {}});
      },
      {"-2"});
}

}  // namespace
}  // namespace crema::test
