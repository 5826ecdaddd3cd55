// The versions of ONNX's operators from the oldest to the newest, and the operators of
// scikit-learn's perceptrons.
#include "imported_model.hpp"

namespace crema::onnx::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kOldest = 7, kNewest = 25;

AttributeProto floats_attribute(const std::string& name, const std::vector<float>& values) {
  AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
  return attribute;
}

// A net of operators that are written the same way in all versions.
TestModel classifier(int64_t opset) {
  TestModel model(opset);
  model.input("x", {2, 3, 8, 8}).weight("conv.weight", Shape{4, 3, 3, 3});
  model.weight("conv.bias", Shape{4}).weight("fc.weight", Shape{5, 36}).weight("fc.bias", Shape{5});
  for (const std::string name : {"bn.weight", "bn.bias", "bn.mean"}) model.weight(name, Shape{4});
  model.weight("bn.var",
               Array::of_doubles(TensorProto::FLOAT, Shape{4}, std::vector<double>{0.5, 1, 2, 3}));
  model.node("Conv", {"x", "conv.weight", "conv.bias"}, {"c"})
      .node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, {"n"},
            {float_attribute("epsilon", 1e-5)})
      .node("Relu", {"n"}, {"r"})
      .node("MaxPool", {"r"}, {"p"},
            {ints_attribute("kernel_shape", {2, 2}), ints_attribute("strides", {2, 2})})
      .node("Flatten", {"p"}, {"f"})
      .node("Gemm", {"f", "fc.weight", "fc.bias"}, {"y"}, {int_attribute("transB", 1)})
      .output("y");
  return model;
}

TEST(ImportVersions, EachVersionFromTheOldestToTheNewest) {
  for (int64_t opset = kOldest; opset <= kNewest; ++opset) {
    SCOPED_TRACE(text("opset ", opset));
    EXPECT_EQ(types_of(expect_same(classifier(opset))),
              "Convolution BatchNorm Scale ReLU Pooling InnerProduct");
  }
}

// Settings are attributes.
TestModel oldest_form() {
  TestModel model(kOldest);
  model.input("x", {2, 3, 5, 5}).weight("w", some_array(Shape{6, 3, 3, 3}));
  model.node("Pad", {"x"}, {"padded"}, {ints_attribute("pads", {0, 0, 1, 1, 0, 0, 1, 1})})
      .node("Conv", {"padded", "w"}, {"c"})
      .node("Clip", {"c"}, {"r"}, {float_attribute("min", -0.5), float_attribute("max", 0.75)})
      .node(
          "Slice", {"r"}, {"s"},
          {ints_attribute("starts", {1}), ints_attribute("ends", {5}), ints_attribute("axes", {1})})
      .node("Upsample", {"s"}, {"u"}, {floats_attribute("scales", {1, 1, 2, 2})})
      .node("Dropout", {"u"}, {"d"}, {float_attribute("ratio", 0.25)})
      .node("Softmax", {"d"}, {"shares"}, {int_attribute("axis", 1)})
      .node("ReduceMean", {"d"}, {"m"}, {ints_attribute("axes", {2, 3})})
      .node("Squeeze", {"m"}, {"q"}, {ints_attribute("axes", {2, 3})})
      .node("Unsqueeze", {"q"}, {"means"}, {ints_attribute("axes", {1})})
      .output("shares")
      .output("means");
  return model;
}

// The same: settings are inputs, and Softmax has one axis.
TestModel newest_form() {
  TestModel model(kNewest);
  model.input("x", {2, 3, 5, 5}).weight("w", some_array(Shape{6, 3, 3, 3}));
  model.indices("pads", {0, 0, 1, 1, 0, 0, 1, 1}).number("least", -0.5).number("most", 0.75);
  model.indices("one", {1}).indices("five", {5}).indices("space", {2, 3}).number("ratio", 0.25);
  model.weight("scales",
               Array::of_doubles(TensorProto::FLOAT, Shape{4}, std::vector<double>{1, 1, 2, 2}));
  model.indices("rows", {2, -1}).indices("maps", {2, 4, 10, 10});
  model.node("Pad", {"x", "pads"}, {"padded"})
      .node("Conv", {"padded", "w"}, {"c"})
      .node("Clip", {"c", "least", "most"}, {"r"})
      .node("Slice", {"r", "one", "five", "one"}, {"s"})
      .node("Resize", {"s", "", "scales"}, {"u"},
            {string_attribute("coordinate_transformation_mode", "asymmetric"),
             string_attribute("nearest_mode", "floor")})
      .node("Dropout", {"u", "ratio"}, {"d"})
      .node("Reshape", {"d", "rows"}, {"flat"})
      .node("Softmax", {"flat"}, {"flat_shares"}, {int_attribute("axis", 1)})
      .node("Reshape", {"flat_shares", "maps"}, {"shares"})
      .node("ReduceMean", {"d", "space"}, {"m"})
      .node("Squeeze", {"m", "space"}, {"q"})
      .node("Unsqueeze", {"q", "one"}, {"means"})
      .output("shares")
      .output("means");
  return model;
}

TEST(ImportVersions, TheOldestAndTheNewestFormAreOneNet) {
  const TestModel oldest = oldest_form(), newest = newest_form();
  const NetParameter old_net = expect_same(oldest), new_net = expect_same(newest);
  EXPECT_THAT(types_of(old_net), Not(HasSubstr("OnnxOperator")));
  EXPECT_THAT(types_of(new_net), Not(HasSubstr("OnnxOperator")));
  const Arrays inputs = some_inputs(oldest.message);
  const auto old_outputs = run_net(old_net, inputs), new_outputs = run_net(new_net, inputs);
  ASSERT_EQ(old_outputs.size(), 2U);
  for (const auto& [name, values] : old_outputs)
    expect_near(new_outputs.at(name), values, 1e-6, name);
}

// What skl2onnx writes of a pipeline of StandardScaler and MLPClassifier.
TEST(ImportVersions, PerceptronOfScikitLearn) {
  TestModel model;
  model.message.mutable_opset_import()->Add()->set_domain("ai.onnx.ml");
  model.input("x", {3, 2}).indices("classes", {7, 8, 9}).indices("column", {-1});
  const auto matrix = [&](const std::string& name, const Shape& shape,
                          const std::vector<double>& values) {
    model.weight(name, Array::of_doubles(TensorProto::FLOAT, shape, values));
  };
  matrix("w0", Shape{2, 2}, {1, -1, 0, 1});
  matrix("b0", Shape{1, 2}, {0, 1});
  matrix("w1", Shape{2, 3}, {2, 0, -1, 0, 1, 3});
  matrix("b1", Shape{1, 3}, {0, 0.5, 0});
  model
      .node("Scaler", {"x"}, {"scaled"},
            {floats_attribute("offset", {1, 2}), floats_attribute("scale", {0.5, 2})})
      .node("MatMul", {"scaled", "w0"}, {"m0"})
      .node("Add", {"m0", "b0"}, {"a0"})
      .node("Relu", {"a0"}, {"r0"})
      .node("MatMul", {"r0", "w1"}, {"m1"})
      .node("Add", {"m1", "b1"}, {"a1"})
      .node("Softmax", {"a1"}, {"probabilities"}, {int_attribute("axis", 1)})
      .node("ArgMax", {"probabilities"}, {"place"},
            {int_attribute("axis", 1), int_attribute("keepdims", 1)})
      .node("ArrayFeatureExtractor", {"classes", "place"}, {"names"})
      .node("Reshape", {"names", "column"}, {"label"})
      .output("label")
      .output("probabilities");
  for (const int node : {0, 8}) model.graph().mutable_node(node)->set_domain("ai.onnx.ml");
  // Scaled: (2, 0), (0, 2), (-1, -1). Scores: (4, 0.5, -2), (0, 3.5, 9), (0, 1.5, 3).
  const std::vector<double> rows = {5, 2, 1, 3, -1, 1.5};
  Arrays inputs;
  inputs.insert_or_assign("x", Array::of_doubles(TensorProto::FLOAT, Shape{3, 2}, rows));
  const NetParameter net = expect_same(model, inputs);
  EXPECT_THAT(types_of(net), HasSubstr("InnerProduct ReLU InnerProduct"));
  const auto outputs = run_net(net, inputs);
  EXPECT_THAT(outputs.at("label"), testing::ElementsAre(7, 9, 9));
  const double sum = std::exp(4.0) + std::exp(0.5) + std::exp(-2.0);
  EXPECT_NEAR(outputs.at("probabilities")[0], std::exp(4.0) / sum, 1e-6);
}

}  // namespace
}  // namespace crema::onnx::test
