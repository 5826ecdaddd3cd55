// Attention and recurrent layers.
#include "imported_model.hpp"

namespace crema::onnx::test {
namespace {

constexpr int64_t kBatch = 2, kSteps = 5, kHeads = 2, kWidth = 3, kAll = kHeads * kWidth;

enum class Mask { none, causal };

// Three projections of x, heads split and joined by Reshape and Transpose.
TestModel attention(Mask mask) {
  TestModel model;
  model.input("x", {kBatch, kSteps, kAll}).number("scale", 1 / std::sqrt(double{kWidth}));
  model.indices("split", {0, 0, kHeads, kWidth}).indices("join", {0, 0, kAll});
  for (const std::string name : {"q", "k", "v"}) {
    model.weight(name + ".weight", Shape{kAll, kAll}).weight(name + ".bias", Shape{kAll});
    model.node("MatMul", {"x", name + ".weight"}, {name + "p"});
    model.node("Add", {name + "p", name + ".bias"}, {name + "b"});
    model.node("Reshape", {name + "b", "split"}, {name + "s"});
    const bool is_key = name == "k";
    model.node("Transpose", {name + "s"}, {name + "h"},
               {ints_attribute("perm", is_key ? std::vector<int64_t>{0, 2, 3, 1}
                                              : std::vector<int64_t>{0, 2, 1, 3})});
  }
  model.node("MatMul", {"qh", "kh"}, {"products"}).node("Mul", {"products", "scale"}, {"scores"});
  std::string scores = "scores";
  if (mask == Mask::causal) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < kSteps * kSteps; ++i)
      numbers.push_back(i % kSteps > i / kSteps ? -1e9 : 0);
    model.weight("mask",
                 Array::of_doubles(TensorProto::FLOAT, Shape{1, 1, kSteps, kSteps}, numbers));
    model.node("Add", {"scores", "mask"}, {"masked"});
    scores = "masked";
  }
  model.node("Softmax", {scores}, {"weights"}, {int_attribute("axis", -1)});
  model.node("MatMul", {"weights", "vh"}, {"heads"});
  model.node("Transpose", {"heads"}, {"steps"}, {ints_attribute("perm", {0, 2, 1, 3})});
  model.node("Reshape", {"steps", "join"}, {"joined"}).weight("o.weight", Shape{kAll, kAll});
  model.node("MatMul", {"joined", "o.weight"}, {"y"}).output("y");
  return model;
}

TEST(ImportAttention, HeadsOfBatchFirst) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    const NetParameter net = expect_same(attention(mask));
    EXPECT_EQ(types_of(net), "InnerProduct InnerProduct InnerProduct Attention InnerProduct");
    for (const LayerParameter& layer : net.layer()) {
      if (layer.type() != "Attention") continue;
      EXPECT_EQ(layer.attention_param().num_heads(), static_cast<uint32_t>(kHeads));
      EXPECT_FALSE(layer.attention_param().has_scale());
      EXPECT_EQ(layer.attention_param().causal(), mask == Mask::causal);
    }
  }
}

// torch.nn.MultiheadAttention: one projection, steps first, heads in the batch.
TEST(ImportAttention, PackedProjectionOfStepsFirst) {
  TestModel model;
  model.input("x", {kBatch, kSteps, kAll}).weight("in.weight", Shape{kAll, 3 * kAll});
  model.weight("in.bias", Shape{3 * kAll}).number("scale", 1 / std::sqrt(double{kWidth}));
  model.node("Transpose", {"x"}, {"t"}, {ints_attribute("perm", {1, 0, 2})});
  model.node("MatMul", {"t", "in.weight"}, {"p"}).node("Add", {"p", "in.bias"}, {"b"});
  model.indices("three", {kSteps, kBatch, 3, kAll}).node("Reshape", {"b", "three"}, {"r"});
  model.indices("front", {0}).node("Unsqueeze", {"r", "front"}, {"u"});
  model.node("Transpose", {"u"}, {"w"}, {ints_attribute("perm", {3, 1, 2, 0, 4})});
  model.indices("third", {3}).node("Squeeze", {"w", "third"}, {"z"});
  model.indices("heads", {kSteps, kBatch * kHeads, kWidth});
  int64_t place = 0;
  for (const std::string name : {"q", "k", "v"}) {
    model.weight(name + "_place", Array::scalar(TensorProto::INT64, static_cast<double>(place++)));
    model.node("Gather", {"z", name + "_place"}, {name}, {int_attribute("axis", 0)});
    model.node("Reshape", {name, "heads"}, {name + "s"});
    model.node("Transpose", {name + "s"}, {name + "h"}, {ints_attribute("perm", {1, 0, 2})});
  }
  model.node("Mul", {"qh", "scale"}, {"qm"});
  model.node("Transpose", {"kh"}, {"kt"}, {ints_attribute("perm", {0, 2, 1})});
  model.node("MatMul", {"qm", "kt"}, {"scores"});
  model.node("Softmax", {"scores"}, {"weights"}, {int_attribute("axis", -1)});
  model.node("MatMul", {"weights", "vh"}, {"a"});
  model.node("Transpose", {"a"}, {"c"}, {ints_attribute("perm", {1, 0, 2})});
  model.indices("rows", {kSteps * kBatch, kAll}).node("Reshape", {"c", "rows"}, {"d"});
  model.weight("out.weight", Shape{kAll, kAll}).weight("out.bias", Shape{kAll});
  model.node("Gemm", {"d", "out.weight", "out.bias"}, {"e"}, {int_attribute("transB", 1)});
  model.indices("back", {kSteps, kBatch, kAll}).node("Reshape", {"e", "back"}, {"f"});
  model.node("Transpose", {"f"}, {"y"}, {ints_attribute("perm", {1, 0, 2})}).output("y");
  EXPECT_EQ(types_of(expect_same(model)), "InnerProduct Slice Attention InnerProduct");
}

struct Sequence {
  std::string op, direction = "forward";
  bool has_states = false, wants_cells = false, linear = false, batch_first = false;
};

TestModel recurrent(const Sequence& form) {
  constexpr int64_t kInputs = 3, kUnits = 4;
  const int64_t gates = form.op == "LSTM" ? 4 : form.op == "GRU" ? 3 : 1;
  const int64_t directions = form.direction == "bidirectional" ? 2 : 1;
  TestModel model;
  model.input("x", form.batch_first ? std::vector<int64_t>{kBatch, kSteps, kInputs}
                                    : std::vector<int64_t>{kSteps, kBatch, kInputs});
  model.weight("w", Shape{directions, gates * kUnits, kInputs});
  model.weight("r", Shape{directions, gates * kUnits, kUnits});
  model.weight("b", Shape{directions, 2 * gates * kUnits});
  std::vector<std::string> inputs = {"x", "w", "r", "b"};
  if (form.has_states) {
    model.weight("h0", Shape{directions, kBatch, kUnits});
    inputs.insert(inputs.end(), {"", "h0"});
    if (form.op == "LSTM") {
      model.weight("c0", Shape{directions, kBatch, kUnits});
      inputs.emplace_back("c0");
    }
  }
  std::vector<std::string> outputs = {"all", "last"};
  if (form.op == "LSTM" && form.wants_cells) outputs.emplace_back("cells");
  std::vector<AttributeProto> attributes = {int_attribute("hidden_size", kUnits),
                                            string_attribute("direction", form.direction)};
  if (form.op == "GRU")
    attributes.push_back(int_attribute("linear_before_reset", form.linear ? 1 : 0));
  if (form.batch_first) attributes.push_back(int_attribute("layout", 1));
  model.node(form.op, inputs, outputs, attributes, "/rnn/" + form.op);
  for (const std::string& output : outputs) model.output(output);
  return model;
}

TEST(ImportRecurrent, EachFormComputesTheSame) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool has_states : {false, true}) {
        for (const bool wants_cells : {false, true}) {
          const Sequence form{.op = op,
                              .direction = direction,
                              .has_states = has_states,
                              .wants_cells = wants_cells,
                              .linear = wants_cells};
          SCOPED_TRACE(std::string(op) + " " + direction);
          const std::string types = types_of(expect_same(recurrent(form)));
          EXPECT_THAT(types, testing::HasSubstr(std::string(op) == "LSTM" ? "LSTM" : "GRU"));
          EXPECT_THAT(types, testing::Not(testing::HasSubstr("OnnxOperator")));
        }
      }
    }
  }
}

TEST(ImportRecurrent, TaggersOfPyTorchHaveNoDebris) {
  TestModel model = recurrent({.op = "LSTM", .direction = "bidirectional"});
  model.graph().clear_output();
  model.node("Transpose", {"all"}, {"t"}, {ints_attribute("perm", {0, 2, 1, 3})});
  model.indices("join", {0, 0, -1}).node("Reshape", {"t", "join"}, {"s"});
  model.weight("fc.weight", Shape{8, 3}).node("MatMul", {"s", "fc.weight"}, {"y"}).output("y");
  const NetParameter net = expect_same(model);
  EXPECT_EQ(types_of(net), "ContinuationIndicator LSTM InnerProduct");
  EXPECT_EQ(net.layer(2).name(), "rnn");
}

TEST(ImportRecurrent, OtherFunctionsRunAsTheyAre) {
  TestModel model = recurrent({.op = "RNN"});
  AttributeProto functions;
  functions.set_name("activations");
  functions.set_type(AttributeProto::STRINGS);
  functions.add_strings("Relu");
  *model.graph().mutable_node(0)->add_attribute() = functions;
  EXPECT_EQ(types_of(expect_same(model)), "OnnxOperator");
}

// As PyTorch exports a classifier of sequences, for any batch, which is axis 1 behind the
// Transpose.
TEST(ImportSequences, LastStatesOfAnOpenBatch) {
  for (const bool by_squeeze : {true, false}) {
    TestModel model;
    model.input("x", {-1, 4, 3}).weight("W", Shape{1, 20, 3}).weight("R", Shape{1, 20, 5});
    model.weight("B", Shape{1, 40}).weight("w", Shape{2, 5}).indices("0", {0}).indices("1", {1});
    model.weight("last", Array::of_integers(TensorProto::INT64, Shape{}, std::vector<int64_t>{-1}));
    model.node("Transpose", {"x"}, {"t"}, {ints_attribute("perm", {1, 0, 2})});
    model.node("LSTM", {"t", "W", "R", "B"}, {"y", "h"}, {int_attribute("hidden_size", 5)});
    if (by_squeeze) {
      model.node("Squeeze", {"h", "0"}, {"s"});
    } else {
      model.node("Squeeze", {"y", "1"}, {"q"});
      model.node("Transpose", {"q"}, {"r"}, {ints_attribute("perm", {1, 0, 2})});
      model.node("Gather", {"r", "last"}, {"s"}, {int_attribute("axis", 1)});
    }
    model.node("Gemm", {"s", "w"}, {"o"}, {int_attribute("transB", 1)}).output("o");
    Arrays inputs;
    inputs.insert_or_assign("x", some_array(Shape{3, 4, 3}));
    const std::string types = types_of(expect_same_of_any_batch(model, inputs));
    EXPECT_EQ(types.find("Flatten"), std::string::npos) << types;
  }
}

}  // namespace
}  // namespace crema::onnx::test
