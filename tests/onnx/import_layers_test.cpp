// Operators as layers: the layers are those that a person would write, and compute the same.
#include <limits>

#include "imported_model.hpp"

namespace crema::onnx::test {
namespace {

using testing::HasSubstr;

TEST(ImportLayers, ConvolutionNormalizationAndActivation) {
  TestModel model;
  model.input("x", {2, 3, 6, 6}).weight("layer1.0.conv1.weight", Shape{4, 3, 3, 3});
  for (const char* name : {"bn.weight", "bn.bias", "bn.mean"}) model.weight(name, Shape{4});
  model.weight("bn.var",
               Array::of_doubles(TensorProto::FLOAT, Shape{4}, std::vector<double>{1, 0.5, 2, 3}));
  model.node("Conv", {"x", "layer1.0.conv1.weight"}, {"a"},
             {ints_attribute("pads", {1, 1, 1, 1}), ints_attribute("strides", {2, 2})});
  model.node("BatchNormalization", {"a", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, {"b"});
  model.node("Relu", {"b"}, {"c"}, {}, "/layer1/layer1.0/relu/Relu");
  model.node("GlobalAveragePool", {"c"}, {"y"}).output("y");
  const NetParameter net = expect_same(model);
  ASSERT_EQ(types_of(net), "Convolution BatchNorm Scale ReLU Pooling");
  const LayerParameter& conv = net.layer(1);
  EXPECT_EQ(conv.name(), "layer1.0.conv1");
  EXPECT_EQ(conv.top(0), "layer1.0.conv1");
  EXPECT_FALSE(conv.convolution_param().bias_term());
  EXPECT_EQ(conv.convolution_param().weight_filler().type(), "msra");
  EXPECT_EQ(conv.convolution_param().kernel_size_size(), 1);
  for (int i = 2; i <= 4; ++i) {
    EXPECT_EQ(net.layer(i).bottom(0), "layer1.0.conv1");
    EXPECT_EQ(net.layer(i).top(0), "layer1.0.conv1");
  }
  EXPECT_EQ(net.layer(2).name(), "bn");
  EXPECT_EQ(net.layer(3).name(), "bn_scale");
  EXPECT_EQ(net.layer(4).name(), "layer1.0.relu");
  EXPECT_EQ(net.layer(2).blobs_size(), 3);
}

TEST(ImportLayers, NothingIsOverwrittenThatOthersRead) {
  TestModel model;
  model.input("x", {1, 2}).node("Abs", {"x"}, {"a"}).node("Relu", {"a"}, {"b"});
  model.node("Add", {"a", "b"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "AbsVal ReLU Eltwise");
}

TEST(ImportLayers, ABoundThatIsNotGivenStopsNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array numbers = Array::of_doubles(TensorProto::FLOAT, Shape{4},
                                          std::vector<double>{-kInfinity, -2, 2, kInfinity});
  for (const bool has_low : {true, false}) {
    TestModel model;
    model.input("x", {4}).number("bound", 0.5);
    model.node("Clip", {"x", has_low ? "bound" : "", has_low ? "" : "bound"}, {"y"}).output("y");
    const ImportedNet imported = import_model(model.message, {});
    ASSERT_EQ(types_of(imported.net), "Clip");
    const auto y = run_net(imported.net, {{"x", numbers}})["y"];
    EXPECT_EQ(y, has_low ? (std::vector<double>{0.5, 0.5, 2, kInfinity})
                         : (std::vector<double>{-kInfinity, -2, 0.5, 0.5}));
  }
}

// A net has no output of the name of an input that layers read.
TEST(ImportLayers, AnInputThatIsAnOutputToo) {
  TestModel model;
  model.input("x", {3}).node("Abs", {"x"}, {"y"}).output("x").output("y");
  const ImportedNet imported = import_model(model.message, {});
  EXPECT_THAT(imported.notes, testing::Contains(HasSubstr("'x_output'")));
  const Arrays inputs = {{"x", some_array(Shape{3})}};
  const auto outputs = run_net(imported.net, inputs);
  ASSERT_EQ(outputs.size(), 2U) << imported.net.DebugString();
  ASSERT_TRUE(outputs.contains("x_output"));
  EXPECT_EQ(outputs.at("x_output"), inputs.at("x").doubles());
  EXPECT_EQ(outputs.at("y").size(), 3U);
}

TEST(ImportLayers, UnevenPads) {
  TestModel conv;
  conv.input("x", {1, 2, 5, 5}).weight("w", Shape{3, 2, 2, 3});
  conv.node("Conv", {"x", "w"}, {"y"}, {ints_attribute("pads", {0, 1, 1, 0})}).output("y");
  EXPECT_EQ(types_of(expect_same(conv)), "Pad Convolution");
  TestModel same;
  same.input("x", {1, 2, 6, 5}).weight("w", Shape{3, 2, 3, 3});
  same.node("Conv", {"x", "w"}, {"y"},
            {string_attribute("auto_pad", "SAME_UPPER"), ints_attribute("strides", {2, 2})});
  same.output("y");
  EXPECT_EQ(types_of(expect_same(same)), "Pad Convolution");
}

TEST(ImportLayers, ConvolutionsOfOneAndThreeAxesAndGroups) {
  TestModel one;
  one.input("x", {2, 4, 7}).weight("w", Shape{6, 2, 3}).weight("b", Shape{6});
  one.node("Conv", {"x", "w", "b"}, {"y"},
           {int_attribute("group", 2), ints_attribute("dilations", {2})});
  one.output("y");
  EXPECT_EQ(types_of(expect_same(one)), "Convolution");
  TestModel three;
  three.input("x", {1, 2, 4, 5, 3}).weight("w", Shape{3, 2, 2, 3, 1});
  three.node("Conv", {"x", "w"}, {"y"}, {ints_attribute("pads", {0, 1, 0, 0, 1, 0})}).output("y");
  EXPECT_EQ(types_of(expect_same(three)), "Convolution");
}

TEST(ImportLayers, TransposedConvolutions) {
  for (const int64_t added : {0, 1}) {
    TestModel model;
    model.input("x", {1, 3, 4, 4}).weight("w", Shape{3, 2, 3, 3}).weight("b", Shape{2});
    model.node("ConvTranspose", {"x", "w", "b"}, {"y"},
               {ints_attribute("strides", {2, 2}), ints_attribute("pads", {1, 1, 1, 1}),
                ints_attribute("output_padding", {added, added})});
    model.output("y");
    EXPECT_EQ(types_of(expect_same(model)), added == 0 ? "Deconvolution" : "Deconvolution Pad");
  }
  // What is added behind the map has the bias.
  TestModel model;
  model.input("x", {1, 2, 3, 3}).weight("w", Shape{2, 2, 2, 2}).weight("b", Shape{2});
  model.node("ConvTranspose", {"x", "w", "b"}, {"y"},
             {ints_attribute("strides", {2, 2}), ints_attribute("output_padding", {1, 1})});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Deconvolution Pad Bias");
}

std::string pooled(const std::string& op, const std::vector<AttributeProto>& attributes,
                   int64_t size = 6) {
  TestModel model;
  model.input("x", {1, 2, size, size}).node(op, {"x"}, {"y"}, attributes).output("y");
  return types_of(expect_same(model));
}

TEST(ImportLayers, PoolingOfEachRounding) {
  const AttributeProto three = ints_attribute("kernel_shape", {3, 3});
  const AttributeProto two = ints_attribute("strides", {2, 2});
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const int64_t size : {5, 6, 7, 8}) {
      for (const int64_t up : {0, 1}) {
        const AttributeProto ceil = int_attribute("ceil_mode", up);
        EXPECT_EQ(pooled(op, {three, two, ceil}, size), "Pooling");
        EXPECT_EQ(pooled(op, {three, two, ceil, ints_attribute("pads", {1, 1, 1, 1})}, size),
                  "Pooling");
        pooled(op, {three, two, ceil, ints_attribute("pads", {0, 0, 1, 1})}, size);
        pooled(op, {three, two, ceil, ints_attribute("pads", {1, 0, 2, 1})}, size);
      }
    }
  }
  EXPECT_EQ(pooled("MaxPool", {three, two, ints_attribute("pads", {0, 0, 1, 1})}), "Pooling");
  for (const std::vector<int64_t>& pads :
       {std::vector<int64_t>{1, 1, 1, 1}, std::vector<int64_t>{0, 0, 1, 1}})
    pooled("AveragePool",
           {three, two, ints_attribute("pads", pads), int_attribute("count_include_pad", 1)});
  EXPECT_EQ(pooled("MaxPool", {three, ints_attribute("dilations", {2, 2})}), "OnnxOperator");
}

TEST(ImportLayers, SoftmaxOfOldModelsFlattens) {
  TestModel model(11);
  model.input("x", {2, 3, 4}).node("Softmax", {"x"}, {"y"}, {int_attribute("axis", 1)}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Flatten Softmax Reshape");
  TestModel young(13);
  young.input("x", {2, 3, 4}).node("Softmax", {"x"}, {"y"}, {int_attribute("axis", 1)});
  young.output("y");
  EXPECT_EQ(types_of(expect_same(young)), "Softmax");
  TestModel logarithm;
  logarithm.input("x", {2, 3}).node("LogSoftmax", {"x"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(logarithm)), "Reduce Arithmetic");
}

TEST(ImportLayers, ProductsThatBroadcast) {
  TestModel model;
  model.input("a", {2, 1, 3, 4}).input("b", {5, 4, 2}).node("MatMul", {"a", "b"}, {"y"});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Expand Expand MatMul");
  TestModel vectors;
  vectors.input("a", {4}).input("b", {3, 4, 2}).node("MatMul", {"a", "b"}, {"y"}).output("y");
  expect_same(vectors);
}

TEST(ImportLayers, GatesOfChannelsAreScales) {
  TestModel model;
  model.input("x", {2, 3, 4, 4}).node("GlobalAveragePool", {"x"}, {"g"});
  model.node("Sigmoid", {"g"}, {"s"}).node("Mul", {"s", "x"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Pooling Sigmoid Flatten Scale");
}

TEST(ImportLayers, SlicesSplitsAndGathers) {
  TestModel model;
  model.input("x", {4, 6}).indices("starts", {-1, 1}).indices("ends", {-9, 5});
  model.indices("axes", {0, 1}).indices("steps", {-2, 2});
  model.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"a"});
  model.indices("sizes", {1, 2, 3})
      .node("Split", {"x", "sizes"}, {"b", "c", "d"}, {int_attribute("axis", 1)});
  model.indices("index", {-1}).node("Gather", {"x", "index"}, {"e"}, {int_attribute("axis", 1)});
  for (const char* name : {"a", "b", "c", "d", "e"}) model.output(name);
  EXPECT_EQ(types_of(expect_same(model)), "StridedSlice Slice Gather");
}

// Of the batch of 1 that importing sees, each of these but the last but one is all of it.
TEST(ImportLayers, SlicesOfAnOpenBatchStayThoseOfTheModel) {
  const int64_t far = std::numeric_limits<int64_t>::max();
  struct Case {
    int64_t start, end, step;
  };
  for (const auto& [start, end, step] :
       {Case{0, 1, 1}, Case{-1, far, 1}, Case{-1, -far, -1}, Case{0, far, 2}, Case{0, far, 1},
        Case{-2, far, 1}, Case{5, -9, -2}}) {
    TestModel model;
    model.input("x", {-1, 2, 3}).indices("starts", {start, 1}).indices("ends", {end, 3});
    model.indices("axes", {0, 2}).indices("steps", {step, 1}).number("two", 2);
    model.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"a"});
    model.indices("start", {start})
        .indices("end", {end})
        .indices("axis", {0})
        .indices("by", {step});
    model.node("Slice", {"x", "start", "end", "axis", "by"}, {"b"});
    model.node("Mul", {"b", "two"}, {"c"}).output("a").output("c");
    SCOPED_TRACE(text(start, ":", end, ":", step));
    Arrays inputs;
    inputs.insert_or_assign("x", some_array(Shape{3, 2, 3}));
    const NetParameter net = expect_same_of_any_batch(model, inputs);
    const bool is_all = start == 0 && end == far && step == 1;
    EXPECT_EQ(types_of(net), is_all ? "StridedSlice Power" : "StridedSlice StridedSlice Power");
  }
}

TEST(ImportLayers, TablesAreEmbeddings) {
  TestModel model;
  model.input("words", {2, 3}, TensorProto::INT64).weight("embed.weight", Shape{9, 4});
  model.node("Gather", {"embed.weight", "words"}, {"y"}).output("y");
  Arrays inputs;
  inputs.insert_or_assign("words", Array::of_integers(TensorProto::INT64, Shape{2, 3},
                                                      std::vector<int64_t>{0, 8, 3, 1, 1, 5}));
  const NetParameter net = expect_same(model, inputs);
  EXPECT_EQ(types_of(net), "Embed");
  EXPECT_EQ(net.layer(1).name(), "embed");
}

TEST(ImportLayers, ArgMaxTakesTheFirstOfEqualValues) {
  TestModel model;
  model.input("x", {2, 4})
      .node("ArgMax", {"x"}, {"y"}, {int_attribute("axis", 1), int_attribute("keepdims", 0)});
  model.output("y");
  Arrays inputs;
  inputs.insert_or_assign("x", Array::of_doubles(TensorProto::FLOAT, Shape{2, 4},
                                                 std::vector<double>{0, 2, 2, 1, 3, 3, 3, 3}));
  const NetParameter net = expect_same(model, inputs);
  EXPECT_THAT(run_net(net, inputs).at("y"), testing::ElementsAre(1, 0));
}

std::string resized(const std::vector<AttributeProto>& attributes, double factor) {
  TestModel model;
  model.input("x", {1, 2, 4, 3});
  model.weight("scales", Array::of_doubles(TensorProto::FLOAT, Shape{4},
                                           std::vector<double>{1, 1, factor, factor}));
  model.node("Resize", {"x", "", "scales"}, {"y"}, attributes).output("y");
  return types_of(expect_same(model));
}

TEST(ImportLayers, ResizesThatALayerComputes) {
  const auto mode = [](const char* name) { return string_attribute("mode", name); };
  const auto at = [](const char* name) {
    return string_attribute("coordinate_transformation_mode", name);
  };
  EXPECT_EQ(resized({mode("nearest")}, 2), "Resize");
  EXPECT_EQ(
      resized({mode("nearest"), at("asymmetric"), string_attribute("nearest_mode", "floor")}, 3),
      "Resize");
  EXPECT_EQ(resized({mode("linear")}, 2), "Resize");
  EXPECT_EQ(resized({mode("linear"), at("align_corners")}, 2), "Resize");
  EXPECT_EQ(resized({mode("cubic")}, 2), "Resize");
  EXPECT_EQ(resized({mode("linear"), at("asymmetric")}, 2), "OnnxOperator");
  EXPECT_EQ(resized({mode("cubic"), float_attribute("cubic_coeff_a", -0.5)}, 2), "OnnxOperator");
}

TEST(ImportLayers, OperatorsWithoutLayersRunAsTheyAre) {
  TestModel model;
  model.input("x", {2, 3}).number("zero", 0).node("Greater", {"x", "zero"}, {"c"});
  model.node("Not", {"c"}, {"n"})
      .node("Cast", {"n"}, {"y"}, {int_attribute("to", TensorProto::FLOAT)});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "OnnxOperator OnnxOperator Split");
}

TEST(ImportLayers, WhatNobodyReadsIsSilenced) {
  TestModel model;
  model.input("x", {2, 6}).indices("k", {2}).node("TopK", {"x", "k"}, {"v", "i"}).output("i");
  const NetParameter net = expect_same(model);
  EXPECT_EQ(types_of(net), "TopK Silence");
}

TEST(ImportLayers, NodesThatShareWeightsHaveNamesOfTheirOwn) {
  TestModel model;
  model.input("x", {2, 4}).weight("first.weight", Shape{4});
  model.node("LayerNormalization", {"x", "first.weight"}, {"a"}, {}, "/first/LayerNormalization");
  model.node("LayerNormalization", {"a", "first.weight"}, {"y"}, {}, "/second/LayerNormalization");
  model.output("y");
  const NetParameter net = expect_same(model);
  EXPECT_EQ(net.layer(1).name(), "first");
  EXPECT_EQ(net.layer(2).name(), "second");
}

TEST(ImportLayers, WeightsThatAreRepeatedForSamplesLearn) {
  TestModel model;
  model.input("x", {2, 3, 4}).weight("class_token", Shape{1, 1, 4});
  model.indices("one", {2, 1, 4}).node("Expand", {"class_token", "one"}, {"t"});
  model.node("Concat", {"t", "x"}, {"y"}, {int_attribute("axis", 1)}).output("y");
  const NetParameter net = expect_same(model);
  ASSERT_EQ(types_of(net), "Parameter Expand Concat");
  EXPECT_EQ(net.layer(1).name(), "class_token");
  EXPECT_EQ(net.layer(1).param_size(), 0);
}

TEST(ImportLayers, WhatStandsBesideSamplesTakesABatchOfAnySize) {
  // The size of the batch is fixed by the model, or follows from a shape; a token that learns, or
  // rows that are the same for all samples.
  for (const int64_t batch : {1, 2, -1}) {
    for (const bool learns : {true, false}) {
      TestModel model;
      model.input("x", {batch, 3, 4});
      const int64_t rows = std::max<int64_t>(batch, 1);
      if (learns) {
        model.weight("class_token", Shape{1, 1, 4}).indices("ones", {1, 4}).indices("zero", {0});
        model.node("Shape", {"x"}, {"shape"}).node("Gather", {"shape", "zero"}, {"n"});
        model.node("Concat", {"n", "ones"}, {"to"}, {int_attribute("axis", 0)});
        model.node("Expand", {"class_token", "to"}, {"token"});
      } else {
        model.indices("sizes", {rows, 1, 4}).node("ConstantOfShape", {"sizes"}, {"token"});
      }
      model.node("Concat", {"token", "x"}, {"y"}, {int_attribute("axis", 1)}).output("y");
      const NetParameter net = expect_same(model);
      ASSERT_EQ(types_of(net), "Parameter Expand Concat") << batch;
      EXPECT_EQ(net.layer(1).param_size(), learns ? 0 : 1) << "lr_mult: 0";
      Arrays inputs;
      inputs.insert_or_assign("x", some_array(Shape{3, 3, 4}));
      const std::vector<double> found = run_net(net, inputs).at("y");
      ASSERT_EQ(found.size(), 3U * 4 * 4);
      for (size_t sample = 0; sample < 3; ++sample) {
        for (size_t c = 0; c < 4; ++c) EXPECT_EQ(found[sample * 16 + c], found[c]);
        EXPECT_EQ(found[sample * 16 + 4], inputs.at("x").at(static_cast<int64_t>(sample * 12)));
      }
    }
  }
}

TEST(ImportLayers, RowsThatDifferBySampleStay) {
  TestModel model;
  model.input("x", {2, 3, 4}).weight("rows", Shape{2, 1, 4});
  model.node("Concat", {"rows", "x"}, {"y"}, {int_attribute("axis", 1)}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Parameter Concat");
}

TEST(ImportLayers, NamesOfDifferentExporters) {
  const auto name_of = [](const std::string& weight, const std::string& node) {
    TestModel model;
    model.input("x", {1, 2, 3, 3}).weight(weight, Shape{2, 2, 1, 1});
    model.node("Conv", {"x", weight}, {"y"}, {}, node).output("y");
    return import_model(model.message).net.layer(1).name();
  };
  EXPECT_EQ(name_of("onnx::Conv_193", "/features/features.0/features.0.0/Conv"), "features.0.0");
  EXPECT_EQ(name_of("onnx::Conv_193", "/layer1/layer1.0/conv1/Conv_1"), "layer1.0.conv1_1");
  EXPECT_EQ(name_of("StatefulPartitionedCall/model/conv1/Conv2D/ReadVariableOp:0", "n"),
            "model/conv1");
  EXPECT_EQ(name_of("inception_3a/1x1.weight", "inception_3a/1x1"), "inception_3a/1x1");
  EXPECT_EQ(name_of("123", ""), "conv");
}

}  // namespace
}  // namespace crema::onnx::test
