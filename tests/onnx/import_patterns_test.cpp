// What exporters write as several nodes becomes the layer that computes it.
#include "imported_model.hpp"

namespace crema::onnx::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A model of x (2, 3, 4), whose nodes `build` adds; its output is y.
template <class Build>
std::string layers_of(const Build& build, double tolerance = 1e-5) {
  TestModel model(17);
  model.input("x", {2, 3, 4});
  model.number("half", 0.5).number("one", 1).number("two", 2).number("three", 3).number("zero", 0);
  model.number("six", 6).number("root2", std::sqrt(2.0)).number("eps", 1e-5);
  build(model);
  model.output("y");
  return types_of(expect_same(model, tolerance));
}

AttributeProto last_axis() { return ints_attribute("axes", {-1}); }

TEST(ImportPatterns, LayerNorm) {
  EXPECT_EQ(
      layers_of([](TestModel& m) {
        m.weight("norm.weight", Shape{4}).weight("norm.bias", Shape{4});
        m.node("ReduceMean", {"x"}, {"mean"}, {last_axis()}).node("Sub", {"x", "mean"}, {"d"});
        m.node("Pow", {"d", "two"}, {"sq"}).node("ReduceMean", {"sq"}, {"var"}, {last_axis()});
        m.node("Add", {"var", "eps"}, {"ve"}).node("Sqrt", {"ve"}, {"sd"});
        m.node("Div", {"d", "sd"}, {"n"}).node("Mul", {"n", "norm.weight"}, {"s"});
        m.node("Add", {"s", "norm.bias"}, {"y"});
      }),
      "LayerNorm");
}

TEST(ImportPatterns, RmsNorm) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.weight("norm.weight", Shape{4});
              m.node("Mul", {"x", "x"}, {"sq"}).node("ReduceMean", {"sq"}, {"ms"}, {last_axis()});
              m.node("Add", {"ms", "eps"}, {"me"}).node("Sqrt", {"me"}, {"r"});
              m.node("Reciprocal", {"r"}, {"i"}).node("Mul", {"x", "i"}, {"n"});
              m.node("Mul", {"norm.weight", "n"}, {"y"});
            }),
            "RMSNorm");
}

TEST(ImportPatterns, GeluOfErf) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Div", {"x", "root2"}, {"a"}).node("Erf", {"a"}, {"e"});
              m.node("Add", {"e", "one"}, {"g"}).node("Mul", {"x", "g"}, {"p"});
              m.node("Mul", {"p", "half"}, {"y"});
            }),
            "GELU");
}

TEST(ImportPatterns, GeluOfTanh) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.number("c", 0.044715).number("s", std::sqrt(2 / std::acos(-1.0)));
              m.node("Pow", {"x", "three"}, {"cube"}).node("Mul", {"cube", "c"}, {"cc"});
              m.node("Add", {"x", "cc"}, {"i"}).node("Mul", {"i", "s"}, {"a"});
              m.node("Tanh", {"a"}, {"t"}).node("Add", {"t", "one"}, {"g"});
              m.node("Mul", {"x", "half"}, {"h"}).node("Mul", {"h", "g"}, {"y"});
            }),
            "GELU");
}

TEST(ImportPatterns, Gates) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Sigmoid", {"x"}, {"s"}).node("Mul", {"x", "s"}, {"y"});
            }),
            "Swish");
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Mul", {"x", "two"}, {"b"}).node("Sigmoid", {"b"}, {"s"});
              m.node("Mul", {"s", "x"}, {"y"});
            }),
            "Swish");
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Softplus", {"x"}, {"p"}).node("Tanh", {"p"}, {"t"});
              m.node("Mul", {"x", "t"}, {"y"});
            }),
            "Mish");
  EXPECT_EQ(
      layers_of([](TestModel& m) {
        m.node("Exp", {"x"}, {"e"}).node("Add", {"e", "one"}, {"a"}).node("Log", {"a"}, {"y"});
      }),
      "BNLL");
  const auto hard = [](TestModel& m) {
    m.node("Add", {"x", "three"}, {"a"}).node("Clip", {"a", "zero", "six"}, {"c"});
  };
  EXPECT_EQ(layers_of([&](TestModel& m) {
              hard(m);
              m.node("Div", {"c", "six"}, {"y"});
            }),
            "HardSigmoid");
  EXPECT_EQ(layers_of([&](TestModel& m) {
              hard(m);
              m.node("Mul", {"x", "c"}, {"p"}).node("Div", {"p", "six"}, {"y"});
            }),
            "HardSwish");
  EXPECT_EQ(layers_of([&](TestModel& m) {
              hard(m);
              m.node("Div", {"c", "six"}, {"g"}).node("Mul", {"x", "g"}, {"y"});
            }),
            "HardSwish");
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Max", {"x", "zero"}, {"a"}).node("Min", {"a", "half"}, {"y"});
            }),
            "Clip");
}

TEST(ImportPatterns, NumbersAreOnePower) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.node("Mul", {"x", "two"}, {"a"}).node("Sub", {"a", "half"}, {"b"});
              m.node("Div", {"b", "six"}, {"c"}).node("Pow", {"c", "three"}, {"y"});
            }),
            "Power");
  EXPECT_EQ(layers_of([](TestModel& m) { m.node("Sub", {"one", "x"}, {"y"}); }), "Power");
  EXPECT_EQ(layers_of([](TestModel& m) { m.node("Mul", {"x", "x"}, {"y"}); }), "Power");
}

TEST(ImportPatterns, ConstantsAreScalesAndBiases) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.weight("gamma", Shape{3, 1}).weight("beta", Shape{1, 3, 1});
              m.node("Mul", {"x", "gamma"}, {"a"}).node("Add", {"beta", "a"}, {"y"});
            }),
            "Scale");
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.weight("pos_embed", Shape{1, 3, 4}).node("Add", {"x", "pos_embed"}, {"y"});
            }),
            "Bias");
}

TEST(ImportPatterns, ProductsWithWeightsAreInnerProducts) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.weight("fc.weight", Shape{4, 5}).weight("fc.bias", Shape{5});
              m.node("MatMul", {"x", "fc.weight"}, {"p"}).node("Add", {"fc.bias", "p"}, {"y"});
            }),
            "InnerProduct");
  TestModel model;
  model.input("x", {2, 3, 2, 2}).weight("fc.weight", Shape{5, 12}).weight("fc.bias", Shape{5});
  model.node("Flatten", {"x"}, {"f"});
  model.node(
      "Gemm", {"f", "fc.weight", "fc.bias"}, {"y"},
      {int_attribute("transB", 1), float_attribute("alpha", 0.5), float_attribute("beta", 2)});
  model.output("y");
  const NetParameter net = expect_same(model);
  ASSERT_EQ(types_of(net), "InnerProduct");
  EXPECT_EQ(net.layer(1).name(), "fc");
}

AttributeProto to_int64() { return int_attribute("to", TensorProto::INT64); }

Arrays words(std::initializer_list<double> numbers) {
  const std::vector<double> values(numbers);
  const Shape shape{static_cast<int64_t>(values.size())};
  return {{"w", Array::of_doubles(TensorProto::FLOAT, shape, values)}};
}

TEST(ImportPatterns, RowsOfATableAreEmbed) {
  TestModel model;
  model.input("w", {3}).weight("op.weight", Shape{5, 4}).weight("op.bias", Shape{4});
  model.node("Cast", {"w"}, {"i"}, {to_int64()}, "op").node("Gather", {"op.weight", "i"}, {"g"});
  model.node("Add", {"g", "op.bias"}, {"y"}).output("y");
  const NetParameter net = expect_same(model, words({4, 0, 2}));
  ASSERT_EQ(types_of(net), "Embed");
  const LayerParameter& layer = net.layer(1);
  EXPECT_EQ(layer.name(), "op");
  EXPECT_EQ(layer.bottom(0), "w");
  EXPECT_EQ(layer.blobs_size(), 2);
  EXPECT_TRUE(layer.embed_param().bias_term());
  EXPECT_EQ(layer.embed_param().input_dim(), 5U);
  EXPECT_EQ(layer.embed_param().num_output(), 4U);
  EXPECT_EQ(layer.embed_param().weight_filler().type(), "xavier");
}

TEST(ImportPatterns, IndicesThatAreCutStayCut) {
  TestModel model;
  model.input("w", {3}).weight("op.weight", Shape{5, 4}).number("two", 2);
  model.node("Mul", {"w", "two"}, {"d"}).node("Cast", {"d"}, {"i"}, {to_int64()});
  model.node("Gather", {"op.weight", "i"}, {"y"}).output("y");
  const NetParameter net = expect_same(model, words({1.3, 0.2, 2.1}));
  EXPECT_EQ(types_of(net), "Power OnnxOperator Embed") << "2.6 is row 2";
}

TEST(ImportPatterns, WholeIndicesNeedNoCast) {
  TestModel model;
  model.input("w", {3}).input("x", {5, 4}).node("Floor", {"w"}, {"f"});
  model.node("Cast", {"f"}, {"i"}, {to_int64()}).node("Gather", {"x", "i"}, {"y"}).output("y");
  Arrays inputs = words({4.5, 0.5, 2});
  inputs.insert_or_assign("x", some_array(Shape{5, 4}));
  EXPECT_EQ(types_of(expect_same(model, inputs)), "OnnxOperator Gather");
}

// Layers of one initialiser train as one.
TEST(ImportPatterns, LayersOfOneInitialiserShareIt) {
  TestModel model;
  model.input("w", {3})
      .weight("table.weight", Shape{5, 4})
      .weight("zeros", Array(TensorProto::FLOAT, Shape{5}));
  model.node("Cast", {"w"}, {"i"}, {to_int64()}).node("Gather", {"table.weight", "i"}, {"g"});
  model.node("Transpose", {"table.weight"}, {"t"}).node("MatMul", {"g", "t"}, {"p"});
  model.node("Add", {"p", "zeros"}, {"y"}).weight("other", Shape{5, 5});
  model.node("Gemm", {"p", "other", "zeros"}, {"z"}).output("y").output("z");
  const NetParameter net = expect_same(model, words({4, 0, 2}));
  std::map<std::string, std::vector<std::string>> names;
  for (const LayerParameter& layer : net.layer()) {
    for (const ParamSpec& param : layer.param()) names[layer.type()].push_back(param.name());
  }
  EXPECT_EQ(names["Embed"], std::vector<std::string>{"table.weight"}) << net.DebugString();
  EXPECT_EQ(names["InnerProduct"], std::vector<std::string>{"table.weight"})
      << "zeros of two layers are no parameter that they share";
  Context context({.threads = 1});
  Net trained(net, context, {.phase = Phase::train});
  std::vector<const ParameterStorage*> tables;
  for (const Layer* layer : trained.layers()) {
    for (const ParamSpec& param : layer->param().param()) {
      if (param.name() == "table.weight") tables.push_back(layer->params()[0]->storage().get());
    }
  }
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0], tables[1]);
}

TEST(ImportPatterns, SharedHeadsShareTheirBiases) {
  TestModel model;
  model.input("x", {1, 3, 4, 4}).input("z", {1, 3, 2, 2}).weight("head.weight", Shape{2, 3, 1, 1});
  model.weight("head.bias", Array(TensorProto::FLOAT, Shape{2}));
  model.node("Conv", {"x", "head.weight", "head.bias"}, {"a"});
  model.node("Conv", {"z", "head.weight", "head.bias"}, {"b"}).output("a").output("b");
  const NetParameter net = expect_same(model);
  ASSERT_EQ(types_of(net), "Convolution Convolution");
  for (int layer = 2; layer < 4; ++layer) {
    ASSERT_EQ(net.layer(layer).param_size(), 2);
    EXPECT_EQ(net.layer(layer).param(0).name(), "head.weight");
    EXPECT_EQ(net.layer(layer).param(1).name(), "head.bias");
  }
}

TEST(ImportPatterns, ScaledProductOfTransposedMatrices) {
  TestModel model;
  model.input("a", {2, 3, 4}).input("b", {2, 5, 4}).number("scale", 0.25);
  model.node("Transpose", {"b"}, {"t"}, {ints_attribute("perm", {0, 2, 1})});
  model.node("MatMul", {"a", "t"}, {"p"}).node("Mul", {"p", "scale"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "MatMul");
}

// Where the batch is 1, and another axis too, moving it changes no order of elements.
TEST(ImportPatterns, TransposesMoveAnOpenBatch) {
  TestModel model;
  model.input("x", {-1, 1, 4}).indices("map", {-1, 1, 2, 2}).number("two", 2);
  model.weight("w", Shape{4, 3, 1});
  const auto perm = [](const std::vector<int64_t>& axes) { return ints_attribute("perm", axes); };
  model.node("Tile", {"x", "repeats"}, {"x3"}).indices("repeats", {1, 3, 1});
  model.node("Transpose", {"x3"}, {"a"}, {perm({2, 0, 1})}).node("MatMul", {"a", "w"}, {"b"});
  model.node("Transpose", {"b"}, {"c"}, {perm({1, 2, 0})}).node("Reshape", {"c", "map"}, {"d"});
  model.node("Transpose", {"x"}, {"e"}, {perm({1, 0, 2})}).node("Mul", {"e", "two"}, {"f"});
  model.node("Transpose", {"x"}, {"g"}, {perm({1, 0, 2})});
  model.node("Transpose", {"g"}, {"h"}, {perm({0, 2, 1})}).node("Mul", {"h", "two"}, {"i"});
  model.output("d").output("f").output("i");
  Arrays inputs;
  inputs.insert_or_assign("x", some_array(Shape{3, 1, 4}));
  expect_same_of_any_batch(model, inputs);
}

TEST(ImportPatterns, AxesComeAndGoBesideAnOpenBatch) {
  TestModel model;
  model.input("x", {-1, 3, 1}).number("two", 2).indices("0", {0}).indices("2", {2});
  model.node("Mul", {"x", "two"}, {"x2"});
  model.node("Unsqueeze", {"x2", "0"}, {"a"});  // (1, N, 3, 1)
  model.node("Transpose", {"x2"}, {"t"}, {ints_attribute("perm", {1, 0, 2})});
  model.node("Squeeze", {"t", "2"}, {"b"});    // (3, N)
  model.node("Unsqueeze", {"t", "0"}, {"c"});  // (1, 3, N, 1)
  model.node("Unsqueeze", {"t", "2"}, {"d"});  // (3, N, 1, 1)
  model.node("Squeeze", {"a", "0"}, {"e0"}).node("Sigmoid", {"e0"}, {"e"});
  for (const char* name : {"a", "b", "c", "d", "e"}) model.output(name);
  Arrays inputs;
  inputs.insert_or_assign("x", some_array(Shape{4, 3, 1}));
  const ImportedNet imported = import_model(model.message, {});
  expect_same_of_any_batch(model, inputs);
  Context context({.threads = 1});
  Net net(imported.net, context, {.phase = Phase::test});
  net.reshape_input("x", {4, 3, 1});
  net.reshape();
  EXPECT_EQ(net.output("a").shape(), (Shape{1, 4, 3, 1}));
  EXPECT_EQ(net.output("b").shape(), (Shape{3, 4}));
  EXPECT_EQ(net.output("c").shape(), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(net.output("d").shape(), (Shape{3, 4, 1, 1}));
}

TEST(ImportPatterns, Einsum) {
  TestModel model;
  model.input("a", {2, 3, 4}).input("b", {2, 4, 5});
  model.node("Einsum", {"a", "b"}, {"y"}, {string_attribute("equation", "bij, bjk -> bki")});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "MatMul Permute");
}

TEST(ImportPatterns, GroupNormOfPyTorch) {
  TestModel model;
  model.input("x", {2, 6, 3, 3}).indices("split", {0, 2, -1}).indices("back", {2, 6, 3, 3});
  model.weight("ones", Array::of_doubles(TensorProto::FLOAT, Shape{2}, std::vector<double>{1, 1}));
  model.weight("zeros", Array(TensorProto::FLOAT, Shape{2}));
  model.weight("gn.weight", Shape{6, 1, 1}).weight("gn.bias", Shape{6, 1, 1});
  model.node("Reshape", {"x", "split"}, {"g"});
  model.node("InstanceNormalization", {"g", "ones", "zeros"}, {"n"});
  model.node("Reshape", {"n", "back"}, {"b"}).node("Mul", {"b", "gn.weight"}, {"s"});
  model.node("Add", {"s", "gn.bias"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "GroupNorm");
}

TEST(ImportPatterns, ChannelsAreShuffled) {
  TestModel model;
  model.input("x", {2, 6, 2, 3}).indices("split", {2, 2, 3, 2, 3}).indices("back", {2, 6, 2, 3});
  model.node("Reshape", {"x", "split"}, {"a"});
  model.node("Transpose", {"a"}, {"b"}, {ints_attribute("perm", {0, 2, 1, 3, 4})});
  model.node("Reshape", {"b", "back"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "ShuffleChannel");
}

TEST(ImportPatterns, TransposesOfChannelsLastNetsMeet) {
  TestModel model;
  const AttributeProto to_last = ints_attribute("perm", {0, 2, 3, 1});
  const AttributeProto to_first = ints_attribute("perm", {0, 3, 1, 2});
  model.input("x", {2, 3, 5, 4}).weight("w", Shape{3, 3, 1, 1}).weight("v", Shape{3, 3, 1, 1});
  model.weight("gamma", Shape{3});
  model.node("Conv", {"x", "w"}, {"a"}).node("Transpose", {"a"}, {"b"}, {to_last});
  model.node("Relu", {"b"}, {"c"}).node("Mul", {"c", "gamma"}, {"d"});
  model.node("Transpose", {"d"}, {"e"}, {to_first}).node("Conv", {"e", "v"}, {"f"});
  model.node("Transpose", {"f"}, {"g"}, {to_last});
  model.node("ReduceMean", {"g"}, {"y"},
             {ints_attribute("axes", {1, 2}), int_attribute("keepdims", 0)});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Convolution ReLU Scale Convolution Pooling Flatten");
}

// A block with squeeze and excitation and a sum, as Keras writes it: values have several readers,
// and a Pad stands between Transposes.
TEST(ImportPatterns, TransposesGoThroughValuesOfSeveralReaders) {
  TestModel model(13);
  const AttributeProto to_last = ints_attribute("perm", {0, 2, 3, 1});
  const AttributeProto to_first = ints_attribute("perm", {0, 3, 1, 2});
  model.input("x", {2, 6, 7, 4}).weight("w", Shape{4, 4, 1, 1}).weight("v", Shape{4, 4, 1, 1});
  model.weight("d", Shape{4, 1, 3, 3}).weight("s", Shape{4, 4, 1, 1});
  model.indices("pads", {0, 0, 1, 0, 0, 1, 2, 0});
  model.node("Transpose", {"x"}, {"x1"}, {to_first})
      .node("Conv", {"x1", "w"}, {"c"})
      .node("Transpose", {"c"}, {"c1"}, {to_last})
      .node("Relu", {"c1"}, {"r"})
      .node("Pad", {"r", "pads"}, {"p"})
      .node("Transpose", {"p"}, {"p1"}, {to_first})
      .node("Conv", {"p1", "d"}, {"e"}, {int_attribute("group", 4)})
      .node("Transpose", {"r"}, {"r1"}, {to_first})
      .node("Conv", {"r1", "v"}, {"f"})
      .node("Transpose", {"f"}, {"f1"}, {to_last})
      .node("ReduceMean", {"f1"}, {"m"},
            {ints_attribute("axes", {1, 2}), int_attribute("keepdims", 1)})
      .node("Transpose", {"m"}, {"m1"}, {to_first})
      .node("Conv", {"m1", "s"}, {"g"})
      .node("Transpose", {"g"}, {"g1"}, {to_last})
      .node("Sigmoid", {"g1"}, {"gate"})
      .node("Mul", {"f1", "gate"}, {"q"})
      .node("Add", {"q", "r"}, {"y"})
      .output("y")
      .output("e");
  const std::string types = types_of(expect_same(model));
  // One for the input, one for the output.
  EXPECT_THAT(types, HasSubstr("Permute Convolution ReLU"));
  EXPECT_THAT(types, HasSubstr("Pad Convolution"));
  EXPECT_THAT(types, Not(HasSubstr("Arithmetic")));
  size_t moves = 0;
  for (size_t at = types.find("Permute"); at != std::string::npos;
       at = types.find("Permute", at + 1))
    ++moves;
  EXPECT_EQ(moves, 2U) << types;
}

TEST(ImportPatterns, TransposesStayForReadersThatNeedThem) {
  TestModel model;
  const AttributeProto to_last = ints_attribute("perm", {0, 2, 3, 1});
  model.input("x", {2, 3, 5, 4}).node("Transpose", {"x"}, {"t"}, {to_last});
  model.node("Relu", {"t"}, {"y"}).node("Softmax", {"t"}, {"z"}, {int_attribute("axis", -1)});
  model.output("y").output("z");
  EXPECT_EQ(types_of(expect_same(model)), "Permute ReLU Softmax");
}

// As UpSampling2D of Keras and repeat_interleave of PyTorch.
TEST(ImportPatterns, TilesBetweenMovesAreResize) {
  TestModel model;
  model.input("x", {2, 3, 4, 5}).indices("rows", {2, 3, 4, 1, 5}).indices("twice", {1, 1, 1, 2, 1});
  model.indices("tall", {2, 3, 8, 5, 1}).indices("thrice", {1, 1, 1, 1, 3});
  model.indices("end", {2, 3, 8, 15});
  model.node("Reshape", {"x", "rows"}, {"a"}).node("Tile", {"a", "twice"}, {"b"});
  model.node("Reshape", {"b", "tall"}, {"c"}).node("Tile", {"c", "thrice"}, {"d"});
  model.node("Reshape", {"d", "end"}, {"y"}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Resize");
  // Whole maps side by side are no such thing.
  TestModel other;
  other.input("x", {2, 3, 4, 5}).indices("twice", {1, 1, 2, 1}).indices("end", {2, 3, 8, 5});
  other.node("Tile", {"x", "twice"}, {"a"}).node("Reshape", {"a", "end"}, {"y"}).output("y");
  EXPECT_THAT(types_of(expect_same(other)), Not(HasSubstr("Resize")));
}

// As Keras writes LayerNormalization.
TEST(ImportPatterns, LayerNormOfMoments) {
  for (const bool pools : {false, true}) {
    TestModel model(13);
    model.input("x", {2, 5, 6}).number("eps", 1e-3);
    model.weight("gamma", Shape{1, 1, 6}).weight("beta", Shape{1, 1, 6});
    const auto mean = [&](const std::string& x, const std::string& y) {
      if (pools) {
        model.node("GlobalAveragePool", {x}, {y});
      } else {
        model.node("ReduceMean", {x}, {y}, {ints_attribute("axes", {2})});
      }
    };
    mean("x", "m");
    model.node("Neg", {"m"}, {"n"}).node("Sub", {"x", "m"}, {"d"}).node("Mul", {"d", "d"}, {"q"});
    mean("q", "v");
    model.node("Add", {"v", "eps"}, {"e"})
        .node("Sqrt", {"e"}, {"s"})
        .node("Reciprocal", {"s"}, {"i"})
        .node("Mul", {"i", "gamma"}, {"f"})
        .node("Mul", {"x", "f"}, {"xf"})
        .node("Mul", {"n", "f"}, {"nf"})
        .node("Add", {"nf", "beta"}, {"b"})
        .node("Add", {"xf", "b"}, {"y"})
        .output("y");
    EXPECT_EQ(types_of(expect_same(model)), "LayerNorm");
  }
}

// Keras lets indices of Embedding count from the end, which Gather does by itself.
TEST(ImportPatterns, WrappedIndicesOfRows) {
  for (const bool by_products : {false, true}) {
    TestModel model(13);
    model.input("x", {2, 3}).weight("table", Shape{5, 4});
    model.weight("rows", Array::of_doubles(TensorProto::INT32, Shape{}, std::vector<double>{5}));
    model.number("zero", 0);
    model.node("Cast", {"x"}, {"i"}, {int_attribute("to", TensorProto::INT32)})
        .node("Add", {"i", "rows"}, {"raised"})
        .node("Cast", {"i"}, {"f"}, {int_attribute("to", TensorProto::FLOAT)})
        .node("Less", {"f", "zero"}, {"low"});
    if (by_products) {
      model.node("Not", {"low"}, {"high"})
          .node("Cast", {"high"}, {"high1"}, {int_attribute("to", TensorProto::INT32)})
          .node("Cast", {"low"}, {"low1"}, {int_attribute("to", TensorProto::INT32)})
          .node("Mul", {"i", "high1"}, {"kept"})
          .node("Mul", {"low1", "raised"}, {"turned"})
          .node("Add", {"turned", "kept"}, {"index"});
    } else {
      model.node("Where", {"low", "raised", "i"}, {"index"});
    }
    model.node("Gather", {"table", "index"}, {"y"}).output("y");
    Arrays inputs;
    const std::vector<double> words = {0, 4, 2, 1, 3, 2};
    inputs.insert_or_assign("x", Array::of_doubles(TensorProto::FLOAT, Shape{2, 3}, words));
    EXPECT_EQ(types_of(expect_same(model, inputs)), "Embed");
  }
}

TEST(ImportPatterns, PadsJoinWhatReadsThem) {
  TestModel model;
  model.input("x", {1, 2, 6, 6}).weight("w", Shape{2, 2, 3, 3});
  model.indices("pads", {0, 0, 1, 1, 0, 0, 1, 1});
  model.node("Pad", {"x", "pads"}, {"p"})
      .node("Conv", {"p", "w"}, {"c"})
      .node("Relu", {"c"}, {"r"});
  model.node("Pad", {"r", "pads"}, {"q"});
  model.node("MaxPool", {"q"}, {"y"},
             {ints_attribute("kernel_shape", {3, 3}), ints_attribute("strides", {2, 2})});
  model.output("y");
  EXPECT_EQ(types_of(expect_same(model)), "Convolution ReLU Pooling");
}

TEST(ImportPatterns, NothingsGo) {
  EXPECT_EQ(layers_of([](TestModel& m) {
              m.indices("same", {2, 3, 4}).node("Identity", {"x"}, {"a"});
              m.node("Cast", {"a"}, {"b"}, {int_attribute("to", TensorProto::DOUBLE)});
              m.node("Cast", {"b"}, {"c"}, {int_attribute("to", TensorProto::FLOAT)});
              m.node("Reshape", {"c", "same"}, {"d"}).node("Expand", {"d", "same"}, {"e"});
              m.node("Mul", {"e", "one"}, {"f"}).node("Add", {"f", "zero"}, {"g"});
              m.node("Relu", {"g"}, {"y"});
            }),
            "ReLU");
}

}  // namespace
}  // namespace crema::onnx::test
