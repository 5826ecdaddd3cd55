// Loading of models: order, names, functions, branches, sizes, and what is refused.
#include "imported_model.hpp"

namespace crema::onnx::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TestModel two_nodes() {
  TestModel model;
  model.input("x", {2, 3}).node("Relu", {"x"}, {"a"}, {}, "/act/Relu").node("Abs", {"a"}, {"y"});
  model.output("y");
  return model;
}

TEST(ImportGraph, InputsAndOutputsKeepTheirNames) {
  const ImportedNet imported = import_model(two_nodes().message);
  ASSERT_EQ(imported.inputs.size(), 1U);
  EXPECT_EQ(imported.inputs[0].name, "x");
  EXPECT_EQ(imported.outputs[0].name, "y");
  EXPECT_EQ(imported.outputs[0].shape, (Shape{2, 3}));
  EXPECT_EQ(types_of(imported.net), "ReLU AbsVal");
  EXPECT_EQ(imported.net.layer(1).name(), "act");
}

TEST(ImportGraph, NodesInAnyOrder) {
  TestModel model = two_nodes();
  model.graph().mutable_node()->SwapElements(0, 1);
  EXPECT_EQ(types_of(expect_same(model)), "ReLU AbsVal");
}

TEST(ImportGraph, ValuesThatAreReadToo) {
  TestModel model = two_nodes();
  model.output("a").output("x");
  const auto outputs = run_net(import_model(model.message).net, some_inputs(model.message));
  EXPECT_TRUE(outputs.contains("a"));
  EXPECT_TRUE(outputs.contains("y"));
}

TEST(ImportGraph, OneOutputOfTwoNames) {
  TestModel model = two_nodes();
  model.node("Identity", {"y"}, {"z"}).output("z");
  expect_same(model);
}

TEST(ImportGraph, RefusesCycles) {
  TestModel model;
  model.input("x", {1})
      .node("Add", {"x", "b"}, {"a"}, {}, "first")
      .node("Abs", {"a"}, {"b"}, {}, "second");
  model.output("b");
  const std::string message = import_error(model.message);
  EXPECT_THAT(message, HasSubstr("wait for each other"));
  EXPECT_THAT(message, HasSubstr("first"));
  EXPECT_THAT(message, HasSubstr("second"));
}

TEST(ImportGraph, MessagesSayTheOperatorOnce) {
  TestModel model;
  model.input("x", {1, 3, 4, 4}).weight("w", Shape{2, 5, 3, 3});
  model.node("Conv", {"x", "w"}, {"y"}, {}, "first").output("y");
  const std::string message = import_error(model.message);
  EXPECT_THAT(message, HasSubstr("node 'first' (Conv): "));
  EXPECT_THAT(message, Not(HasSubstr("Conv: "))) << "the node's description has it";
}

TEST(ImportGraph, RefusesNamesThatAreNotThereOrTwice) {
  TestModel missing;
  missing.input("x", {1}).node("Add", {"x", "w"}, {"y"}, {}, "sum").output("y");
  EXPECT_THAT(import_error(missing.message), HasSubstr("node 'sum' (Add) reads 'w'"));
  TestModel twice = two_nodes();
  twice.node("Neg", {"x"}, {"a"});
  EXPECT_THAT(import_error(twice.message), HasSubstr("makes 'a'"));
  TestModel no_output = two_nodes();
  no_output.output("q");
  EXPECT_THAT(import_error(no_output.message), HasSubstr("output 'q'"));
  TestModel same_outputs = two_nodes();
  same_outputs.output("y");
  EXPECT_THAT(import_error(same_outputs.message), HasSubstr("two outputs"));
}

TEST(ImportGraph, NamesAllUnknownOperatorsAtOnce) {
  TestModel model = two_nodes();
  model.node("Frobnicate", {"y"}, {"p"}, {}, "one").node("Frobnicate", {"p"}, {"q"});
  model.node("Loop", {"q"}, {"r"}, {}, "again").output("r");
  const std::string message = import_error(model.message);
  EXPECT_THAT(message, HasSubstr("Frobnicate (2 nodes, the first is node 'one'"));
  EXPECT_THAT(message, HasSubstr("Loop (node 'again'"));
}

TEST(ImportGraph, RefusesVersionsThatAreNotKnown) {
  TestModel old = two_nodes(), young = two_nodes();
  old.message.mutable_opset_import(0)->set_version(6);
  young.message.mutable_opset_import(0)->set_version(kNewestOpset + 1);
  EXPECT_THAT(import_error(old.message), HasSubstr("version 6"));
  EXPECT_THAT(import_error(young.message), HasSubstr(text("version ", kNewestOpset + 1)));
  EXPECT_THAT(import_error(ModelProto()), HasSubstr("no graph"));
}

TEST(ImportGraph, OpenSizesAreGivenOrOne) {
  TestModel model;
  model.input("x", {-1, 3}).input("z", {-1, 3}).node("Add", {"x", "z"}, {"y"}).output("y");
  const ImportedNet one = import_model(model.message);
  EXPECT_EQ(one.outputs[0].shape, (Shape{1, 3}));
  EXPECT_THAT(one.notes, testing::Contains(HasSubstr("axis 0 ('N') of input 'x'")));
  // Both have the size N.
  InputShapes shapes;
  shapes["x"] = Shape{5, 3};
  const ImportedNet five = import_model(model.message, {.shapes = shapes});
  EXPECT_EQ(five.outputs[0].shape, (Shape{5, 3}));
  EXPECT_THAT(five.notes, IsEmpty());
  InputShapes wrong;
  wrong["xx"] = Shape{5, 3};
  EXPECT_THAT(import_error(model.message, {.shapes = wrong}), HasSubstr("'xx'"));
}

TEST(ImportGraph, ShapesForOpenSizesAlone) {
  TestModel open, fixed;
  open.input("x", {-1, 3}).node("Relu", {"x"}, {"y"}).output("y");
  fixed.input("x", {2, 3}).node("Relu", {"x"}, {"y"}).output("y");
  ImportOptions options;
  options.open_shapes["x"] = Shape{5, 3};
  EXPECT_EQ(import_model(open.message, options).outputs[0].shape, (Shape{5, 3}));
  EXPECT_EQ(import_model(fixed.message, options).outputs[0].shape, (Shape{2, 3}));
  options.shapes["x"] = Shape{4, 3};
  EXPECT_EQ(import_model(open.message, options).outputs[0].shape, (Shape{4, 3}));
  options = {};
  options.open_shapes["x"] = Shape{5, 3, 1};
  EXPECT_EQ(import_model(open.message, options).outputs[0].shape, (Shape{1, 3}));
  fixed.weight("w", Shape{1}).input("w", {1});
  EXPECT_THAT(input_names(fixed.message), testing::ElementsAre("x"));
}

TEST(ImportGraph, ReshapeLeavesTheBatchOpen) {
  TestModel model;
  model.input("x", {-1, 4, 2}).node("Shape", {"x"}, {"shape"});
  model.indices("zero", {0}).indices("minus", {-1}).node("Gather", {"shape", "zero"}, {"n"});
  model.node("Concat", {"n", "minus"}, {"dims"}, {int_attribute("axis", 0)});
  model.node("Reshape", {"x", "dims"}, {"y"}).output("y");
  const NetParameter net = import_model(model.message).net;
  EXPECT_EQ(types_of(net), "Flatten");
  Arrays inputs;
  inputs.insert_or_assign("x", some_array(Shape{3, 4, 2}));
  EXPECT_EQ(run_net(net, inputs).at("y").size(), 24U);
}

TEST(ImportGraph, FunctionsAreInlined) {
  TestModel model;
  model.message.mutable_opset_import()->Add()->set_domain("mine");
  FunctionProto& function = *model.message.add_functions();
  function.set_name("Leak");
  function.set_domain("mine");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope");
  function.add_opset_import()->set_version(17);
  NodeProto& inner = *function.add_node();
  inner.set_op_type("LeakyRelu");
  inner.add_input("a");
  inner.add_output("b");
  AttributeProto& slope = *inner.add_attribute();
  slope.set_name("alpha");
  slope.set_type(AttributeProto::FLOAT);
  slope.set_ref_attr_name("slope");
  model.input("x", {4}).node("Leak", {"x"}, {"y"}, {float_attribute("slope", 0.5)}).output("y");
  model.graph().mutable_node(0)->set_domain("mine");
  const NetParameter net = expect_same(model);
  ASSERT_EQ(types_of(net), "ReLU");
  EXPECT_FLOAT_EQ(net.layer(1).relu_param().negative_slope(), 0.5F);
  // A function that calls itself ends, too.
  inner.set_op_type("Leak");
  inner.set_domain("mine");
  EXPECT_THAT(import_error(model.message), HasSubstr("nested"));
}

TestModel with_branches(double condition) {
  TestModel model;
  model.input("x", {3}).weight("c", Array::scalar(TensorProto::BOOL, condition));
  const auto branch = [&](const std::string& name, const std::string& op) {
    AttributeProto attribute;
    attribute.set_name(name);
    attribute.set_type(AttributeProto::GRAPH);
    NodeProto& node = *attribute.mutable_g()->add_node();
    node.set_op_type(op);
    node.add_input("x");
    node.add_output(name + "_y");
    attribute.mutable_g()->add_output()->set_name(name + "_y");
    return attribute;
  };
  model.node("If", {"c"}, {"y"}, {branch("then_branch", "Relu"), branch("else_branch", "Abs")});
  model.output("y");
  return model;
}

TEST(ImportGraph, TheChosenBranchStays) {
  EXPECT_EQ(types_of(expect_same(with_branches(1))), "ReLU");
  EXPECT_EQ(types_of(expect_same(with_branches(0))), "AbsVal");
  TestModel open = with_branches(1);
  open.graph().clear_initializer();
  open.input("c", {}, TensorProto::BOOL);
  EXPECT_THAT(import_error(open.message), HasSubstr("condition 'c'"));
  // What the other branch would do is of no interest.
  TestModel unknown = with_branches(1);
  unknown.graph().mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_op_type(
      "Unheard");
  EXPECT_THAT(import_error(unknown.message), HasSubstr("(Unheard)"));
  EXPECT_THAT(import_error(unknown.message), HasSubstr("does not know this operator"));
  unknown.graph().clear_initializer();
  unknown.weight("c", Array::scalar(TensorProto::BOOL, 0));
  EXPECT_EQ(types_of(import_model(unknown.message).net), "AbsVal");
}

TEST(ImportGraph, SparseInitialisers) {
  TestModel model;
  model.input("x", {2, 2}).node("Add", {"x", "s"}, {"y"}).output("y");
  SparseTensorProto& sparse = *model.graph().add_sparse_initializer();
  *sparse.mutable_values() =
      message_of(Array::of_doubles(TensorProto::FLOAT, Shape{1}, std::vector<double>{5}), "s");
  *sparse.mutable_indices() = message_of(Array::of_indices(std::vector<int64_t>{3}), "");
  sparse.add_dims(2);
  sparse.add_dims(2);
  Arrays inputs;
  inputs.insert_or_assign("x", Array(TensorProto::FLOAT, Shape{2, 2}));
  EXPECT_THAT(run_net(expect_same(model, inputs), inputs).at("y"),
              testing::ElementsAre(0, 0, 0, 5));
  *sparse.mutable_indices() = message_of(Array::of_indices(std::vector<int64_t>{4}), "");
  EXPECT_THAT(import_error(model.message), HasSubstr("outside"));
  sparse.set_dims(0, int64_t{1} << 40);
  EXPECT_THAT(import_error(model.message), HasSubstr("'s'"));
}

TEST(ImportGraph, LayersOfTheDomainCrema) {
  TestModel model;
  model.message.mutable_opset_import()->Add()->set_domain("crema");
  model.input("x", {2, 3}).weight("ip.weight", Shape{4, 3});
  model.node("InnerProduct", {"x", "ip.weight"}, {"y"},
             {int_attribute("num_output", 4), int_attribute("bias_term", 0)});
  model.graph().mutable_node(0)->set_domain("crema");
  model.output("y");
  const ImportedNet imported = import_model(model.message);
  EXPECT_EQ(types_of(imported.net), "InnerProduct");
  EXPECT_EQ(imported.net.layer(1).name(), "ip");
  EXPECT_EQ(imported.outputs[0].shape, (Shape{2, 4}));
  set_attribute(*model.graph().mutable_node(0), int_attribute("num_outputs", 4));
  EXPECT_THAT(import_error(model.message), HasSubstr("num_outputs"));
  remove_attribute(*model.graph().mutable_node(0), "num_outputs");
  set_attribute(*model.graph().mutable_node(0), int_attribute("num_output", int64_t{1} << 40));
  EXPECT_THAT(import_error(model.message), HasSubstr("num_output"));
}

}  // namespace
}  // namespace crema::onnx::test
