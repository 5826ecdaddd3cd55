#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LayerCase onnx_operator(const std::string& settings, const std::vector<Input>& bottoms,
                        int tops = 1) {
  return {.layer = "layer { type: 'OnnxOperator' onnx_operator_param { " + settings + " } }",
          .bottoms = bottoms,
          .tops = tops};
}

TEST(OnnxOperator, ComputesIntegersAsIntegers) {
  LayerRun run(onnx_operator("op_type: 'Div' opset: 14 bottom_type: INT64 bottom_type: INT64",
                             {given({3}, {7, -7, 9}), given({1}, {2})}));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(3, -3, 4));
}

TEST(OnnxOperator, ShapesFollowFromConstants) {
  LayerRun run(onnx_operator(
      "op_type: 'Tile' opset: 13 bottom_type: FLOAT input: 0 input: -1 "
      "constant { input: 1 value { dims: 2 data_type: 7 int64_data: 1 int64_data: 2 } }",
      {given({2, 2}, {1, 2, 3, 4})}));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 4}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST(OnnxOperator, TakesOneOfTheOutputs) {
  LayerRun run(
      onnx_operator("op_type: 'TopK' opset: 11 bottom_type: FLOAT output: 1 input: 0 input: -1 "
                    "constant { input: 1 value { dims: 1 data_type: 7 int64_data: 2 } }",
                    {given({4}, {1, 9, 3, 5})}));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 3));
}

TEST(OnnxOperator, ShapesThatFollowFromValuesAreBoundsAtFirst) {
  LayerRun run(
      onnx_operator("op_type: 'NonZero' opset: 13 bottom_type: FLOAT", {given({4}, {0, 2, 0, 3})}));
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 4}));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 3));
}

std::string refusal(const std::string& settings) {
  try {
    LayerRun run(onnx_operator(settings, {given({2}, {1, 2})}));
    run.forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxOperator, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refusal("op_type: 'Tanhh' bottom_type: FLOAT"), HasSubstr("did you mean 'Tanh'"));
  EXPECT_THAT(refusal("op_type: 'Tanh' opset: 13"), HasSubstr("bottom_type"));
  EXPECT_THAT(refusal("op_type: 'Tanh' opset: 13 bottom_type: FLOAT input: 3"),
              HasSubstr("no bottom"));
  EXPECT_THAT(refusal("op_type: 'Tanh' opset: 13 bottom_type: FLOAT constant { input: 0 }"),
              HasSubstr("both"));
  EXPECT_THAT(refusal("op_type: 'Tanh' opset: 13 bottom_type: STRING"), HasSubstr("STRING"));
}

}  // namespace
}  // namespace crema::test
