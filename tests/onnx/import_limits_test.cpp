// What a short model must not do: fill the memory, run for hours, read and write other
// files. And patterns that are almost there.
#include <set>

#include "crema/registry.hpp"
#include "imported_model.hpp"
#include "onnx/exported_model.hpp"

namespace crema::onnx::test {
namespace {

using testing::HasSubstr;

TEST(ImportLimits, RoomFollowsFromTheModel) {
  Graph graph;
  const double all = static_cast<double>(kMaxFoldedBytes);
  EXPECT_FALSE(graph.take_room(all + 1));
  EXPECT_TRUE(graph.take_room(all)) << "what was refused does not count";
  EXPECT_FALSE(graph.take_room(1));
  graph.count_loaded(100);
  EXPECT_TRUE(graph.take_room(800));
  EXPECT_FALSE(graph.take_room(1));
  graph.need_room(1e9);
  EXPECT_THROW(graph.need_room(1e9), Error);
}

TEST(ImportLimits, FewBytesDoNotBecomeManyByFolding) {
  TestModel model;
  model.indices("shape", {8192, 8192}).node("ConstantOfShape", {"shape"}, {"y"}).output("y");
  EXPECT_EQ(types_of(import_model(model.message).net), "OnnxOperator");
  TestModel small;
  small.indices("shape", {2, 3}).node("ConstantOfShape", {"shape"}, {"y"}).output("y");
  EXPECT_EQ(types_of(import_model(small.message).net), "Parameter");
}

TEST(ImportLimits, LongSumsAreNotFolded) {
  TestModel model;
  for (const char* name : {"a", "b", "c", "d"}) model.weight(name, Shape{1000});
  model.node("Einsum", {"a", "b", "c", "d"}, {"y"}, {string_attribute("equation", "i,j,k,l->")});
  model.output("y");
  EXPECT_EQ(types_of(import_model(model.message).net), "OnnxOperator");
}

TEST(ImportLimits, SparseTensorsAreNotWrittenOutAtAnySize) {
  TestModel model;
  SparseTensorProto sparse;
  *sparse.mutable_values() = message_of(some_array(Shape{1}), "w");
  *sparse.mutable_indices() = message_of(Array::of_indices(std::vector<int64_t>{5}), "");
  sparse.add_dims(int64_t{1} << 30);
  AttributeProto value;
  value.set_name("sparse_value");
  value.set_type(AttributeProto::SPARSE_TENSOR);
  *value.mutable_sparse_tensor() = sparse;
  model.node("Constant", {}, {"y"}, {value}).output("y");
  EXPECT_THAT(import_error(model.message), HasSubstr("when it is written out"));
  TestModel initialiser;
  *initialiser.graph().add_sparse_initializer() = sparse;
  initialiser.node("Neg", {"w"}, {"y"}).output("y");
  EXPECT_THAT(import_error(initialiser.message), HasSubstr("when it is written out"));
}

// A model that names /etc/passwd as a list of images must not have its lines shown.
TEST(ImportLimits, LayersThatReadAndWriteFiles) {
  const auto error_of = [](const std::string& type, const std::vector<AttributeProto>& attributes) {
    TestModel model;
    model.input("x", {2, 3}).node(type, {"x"}, {"y"}, attributes).output("y");
    model.graph().mutable_node(0)->set_domain("crema");
    return import_error(model.message);
  };
  const auto settings = [](const char* name, const char* value) {
    return std::vector<AttributeProto>{string_attribute(name, value)};
  };
  constexpr const char* kRefused = "must not read and write files";
  EXPECT_THAT(error_of("HDF5Output", {}), HasSubstr(kRefused));
  for (const char* type : {"Data", "ImageData", "HDF5Data", "WindowData", "InfogainLoss"})
    EXPECT_THAT(error_of(type, settings("source", "/etc/passwd")), HasSubstr(kRefused)) << type;
  EXPECT_THAT(error_of("ImageData", settings("root_folder", "/")), HasSubstr("its root_folder"));
  EXPECT_THAT(error_of("MemoryData", settings("transform_param", "mean_file: 'a'")),
              HasSubstr("its mean_file"));
  EXPECT_THAT(error_of("DetectionOutput", settings("save_file", "a.csv")),
              HasSubstr("its save_file"));
  EXPECT_THAT(error_of("DetectionOutput", settings("save_output_param", "output_format: 'VOC'")),
              HasSubstr(kRefused));
  if (Registry::instance().has("VideoData")) {  // builds with OpenCV's videoio
    EXPECT_THAT(error_of("VideoData", {}), HasSubstr("camera"));
  }
}

// Whoever adds a text to the settings of a layer says here, or in layer_node.cpp, what it is.
TEST(ImportLimits, AllTextsInSettingsAreKnown) {
  static const std::set<std::string> kHarmless = {
      "bottom", "conv_algorithm", "conv_algos_override", "crop_mode", "display_name", "engine",
      "layer", "module", "name", "not_stage", "output_format", "param_str", "sampler_type", "stage",
      "top", "type", "op_type", "transform_type", "output_name_prefix", "domain",
      // Of layers of forks that Crema reads and lacks.
      "calibrator", "deploy", "deploy_outputs", "model"};
  static const std::set<std::string> kFiles = {"class_map",      "class_names", "file_name",
                                               "label_map_file", "mean_file",   "name_size_file",
                                               "root_folder",    "save_file",   "softmax_tree",
                                               "source",         "video_file",  "output_directory"};
  using google::protobuf::Descriptor;
  std::vector<const Descriptor*> open = {LayerParameter::descriptor()};
  std::set<const Descriptor*> seen;
  std::set<std::string> found;
  while (!open.empty()) {
    const Descriptor* const each = open.back();
    open.pop_back();
    // An operator of ONNX has texts of its own, and none of them names a file.
    if (each->full_name().starts_with("crema.onnx.") || !seen.insert(each).second) continue;
    for (int i = 0; i < each->field_count(); ++i) {
      if (each->field(i)->message_type() != nullptr) open.push_back(each->field(i)->message_type());
      if (each->field(i)->type() == google::protobuf::FieldDescriptor::TYPE_STRING)
        found.insert(each->field(i)->name());
    }
  }
  for (const std::string& name : found)
    EXPECT_TRUE(kHarmless.contains(name) || kFiles.contains(name)) << name;
  for (const std::string& name : kFiles) EXPECT_TRUE(found.contains(name)) << name;
}

// Two nodes may have one name: what the first call leaves out, the second may give.
TEST(ImportLimits, CallsOfOneName) {
  TestModel model;
  FunctionProto& function = *model.message.add_functions();
  function.set_name("AtLeast");
  function.set_domain("mine");
  function.add_input("a");
  function.add_input("low");
  function.add_output("b");
  function.add_opset_import()->set_version(17);
  NodeProto& inner = *function.add_node();
  inner.set_op_type("Clip");
  inner.add_input("a");
  inner.add_input("low");
  inner.add_output("b");
  model.input("x", {1}).number("zero", 0);
  model.node("AtLeast", {"x"}, {"y"}, {}, "same").node("AtLeast", {"x", "zero"}, {"z"}, {}, "same");
  for (NodeProto& node : *model.graph().mutable_node()) node.set_domain("mine");
  model.output("y").output("z");
  const Array x = Array::of_doubles(TensorProto::FLOAT, Shape{1}, std::vector<double>{-3});
  const auto outputs = run_net(import_model(model.message).net, {{"x", x}});
  EXPECT_EQ(outputs.find("y")->second, (std::vector<double>{-3}));
  EXPECT_EQ(outputs.find("z")->second, (std::vector<double>{0}));
}

// x * (1 + erf(x / sqrt(2))) * half
NetParameter like_gelu(const Array& half, const std::vector<int64_t>& shape) {
  TestModel model;
  model.input("x", shape).number("one", 1).number("root", std::sqrt(2.0)).weight("half", half);
  model.node("Div", {"x", "root"}, {"a"})
      .node("Erf", {"a"}, {"e"})
      .node("Add", {"e", "one"}, {"g"});
  model.node("Mul", {"x", "g"}, {"p"}).node("Mul", {"p", "half"}, {"y"}).output("y");
  return expect_same(model);
}

TEST(ImportLimits, AlmostGelu) {
  const auto scalar = [](double value) { return Array::scalar(TensorProto::FLOAT, value); };
  EXPECT_EQ(types_of(like_gelu(scalar(0.5), {2, 3})), "GELU");
  EXPECT_THAT(types_of(like_gelu(scalar(0.4995), {2, 3})), Not(HasSubstr("GELU")));
  EXPECT_THAT(types_of(like_gelu(scalar(0.5).reshaped(Shape{1, 1, 1}), {2, 3})),
              Not(HasSubstr("GELU")))
      << "the number makes the result one of three axes";
}

TEST(ImportLimits, KeysThatHeadsShare) {
  TestModel model;
  model.input("q", {1, 4, 8}).input("k", {1, 4, 4}).input("v", {1, 4, 4});
  model.indices("heads", {1, 4, 2, 4}).indices("one", {1, 4, 1, 4}).indices("joined", {1, 4, 8});
  const auto perm = [](std::vector<int64_t> order) { return ints_attribute("perm", order); };
  model.node("Reshape", {"q", "heads"}, {"q4"})
      .node("Transpose", {"q4"}, {"qh"}, {perm({0, 2, 1, 3})});
  model.node("Reshape", {"k", "one"}, {"k4"})
      .node("Transpose", {"k4"}, {"kh"}, {perm({0, 2, 3, 1})});
  model.node("Reshape", {"v", "one"}, {"v4"})
      .node("Transpose", {"v4"}, {"vh"}, {perm({0, 2, 1, 3})});
  model.node("MatMul", {"qh", "kh"}, {"s"})
      .node("Softmax", {"s"}, {"p"}, {int_attribute("axis", -1)});
  model.node("MatMul", {"p", "vh"}, {"o"}).node("Transpose", {"o"}, {"t"}, {perm({0, 2, 1, 3})});
  model.node("Reshape", {"t", "joined"}, {"y"}).output("y");
  EXPECT_THAT(types_of(expect_same(model)), Not(HasSubstr("Attention")));
}

TEST(ImportLimits, ConstantsOfOperatorsAreExported) {
  const crema::test::ExportedModel model(
      crema::test::input_layer("dim: 3") +
      "layer { name: 'hot' type: 'OnnxOperator' bottom: 'x' top: 'hot' onnx_operator_param { "
      "op_type: 'OneHot' opset: 17 bottom_type: INT64 top_type: FLOAT input: 0 "
      "constant { input: 1 value { data_type: 7 int64_data: 4 } } "
      "constant { input: 2 value { dims: 2 data_type: 1 float_data: 0 float_data: 1 } } } }");
  const NodeProto& node = model.node("OneHot");
  ASSERT_EQ(node.input_size(), 3);
  EXPECT_EQ(model.constant(node.input(1)).integers(), (std::vector<int64_t>{4}));
  EXPECT_EQ(model.constant(node.input(2)).doubles(), (std::vector<double>{0, 1}));
}

}  // namespace
}  // namespace crema::onnx::test
