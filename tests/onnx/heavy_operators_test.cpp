// What operators over axes, products, losses and sequences give, with values by hand, and what they
// refuse.

#include <cmath>
#include <string>
#include <vector>

#include "onnx/operator_use.hpp"
#include "support/expect_error.hpp"

namespace crema::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(HeavyOperators, ReductionsOverOneAxis) {
  const Array x = floats({2, 3}, {1, -2, 3, 4, 5, -6});
  const auto reduced = [&](const char* op) {
    return Use(op, 11).set("axes", Ints{-1}).set("keepdims", int64_t{0}).in(x).result();
  };
  expect_array(reduced("ReduceSum"), {2}, {2, 3});
  expect_array(reduced("ReduceMean"), {2}, {2.0 / 3, 1});
  expect_array(reduced("ReduceMax"), {2}, {3, 5});
  expect_array(reduced("ReduceMin"), {2}, {-2, -6});
  expect_array(reduced("ReduceProd"), {2}, {-6, -120});
  expect_array(reduced("ReduceL1"), {2}, {6, 15});
  expect_array(reduced("ReduceL2"), {2}, {std::sqrt(14.0), std::sqrt(77.0)});
  expect_array(reduced("ReduceSumSquare"), {2}, {14, 77});
  expect_array(reduced("ReduceLogSum"), {2}, {std::log(2.0), std::log(3.0)});
  expect_array(reduced("ReduceLogSumExp"), {2},
               {std::log(std::exp(1) + std::exp(-2) + std::exp(3)),
                std::log(std::exp(4) + std::exp(5) + std::exp(-6))});
}

TEST(HeavyOperators, ReductionsTakeAxesAsInput) {
  const Array x = floats({2, 2}, {1, 2, 3, 4});
  expect_array(Use("ReduceSum", 13).in(x).in(indices({0})).result(), {1, 2}, {4, 6});
  expect_array(Use("ReduceMax", 18).in(x).in(indices({0, 1})).result(), {1, 1}, {4});
  expect_array(Use("ReduceSum", 13).in(x).result(), {1, 1}, {10});
  expect_array(Use("ReduceSumSquare", 18).set("noop_with_empty_axes", int64_t{1}).in(x).result(),
               {2, 2}, {1, 4, 9, 16});
  expect_error([&] { Use("ReduceSum", 13).in(x).in(indices({2})).result(); },
               {"ReduceSum: ", "axis 2"});
  expect_error(
      [&] {
        Use("ReduceSum", 13).in(x).in(indices({0, -2})).result();
      },
      {"ReduceSum: ", "twice"});
  expect_error([&] { Use("ReduceSum", 13).in(x).unknown(TensorProto::INT64, Shape{1}).inferred(); },
               {"ReduceSum: ", "axes"});
}

TEST(HeavyOperators, ReductionsOfNothing) {
  const Array x = floats({2, 0}, {});
  const auto reduced = [&](const char* op) {
    return Use(op, 20).set("keepdims", int64_t{0}).in(x).in(indices({1})).result();
  };
  expect_array(reduced("ReduceSum"), {2}, {0, 0});
  expect_array(reduced("ReduceProd"), {2}, {1, 1});
  expect_array(reduced("ReduceMax"), {2}, {-kInf, -kInf});
  expect_array(reduced("ReduceMin"), {2}, {kInf, kInf});
  expect_array(reduced("ReduceMean"), {2}, {kNan, kNan});
  expect_array(reduced("ReduceLogSumExp"), {2}, {-kInf, -kInf});
}

TEST(HeavyOperators, ReductionsOfIntegersAreExact) {
  const Array x = integers({2}, {kMax, 1});
  expect_integers(Use("ReduceSum").in(x).result(), TensorProto::INT64, {1}, {kMin});
  expect_integers(Use("ReduceMax", 20).in(x).result(), TensorProto::INT64, {1}, {kMax});
  expect_integers(Use("ReduceMin", 20).in(bools({2}, {1, 0})).result(), TensorProto::BOOL, {1},
                  {0});
  expect_integers(Use("ReduceMax", 20).in(integers({2}, {-1, 5}, TensorProto::UINT64)).result(),
                  TensorProto::UINT64, {1}, {-1});
  expect_integers(
      Use("ReduceMax", 20).in(integers({0}, {}, TensorProto::INT8)).in(indices({0})).result(),
      TensorProto::INT8, {1}, {-128});
}

TEST(HeavyOperators, PlacesOfExtremes) {
  const Array x = floats({2, 3}, {1, 3, 3, kNan, 0, 9});
  expect_integers(Use("ArgMax").set("axis", int64_t{1}).in(x).result(), TensorProto::INT64, {2, 1},
                  {1, 0});
  expect_integers(
      Use("ArgMax").set("axis", int64_t{1}).set("select_last_index", int64_t{1}).in(x).result(),
      TensorProto::INT64, {2, 1}, {2, 0});
  expect_integers(Use("ArgMin")
                      .set("axis", int64_t{-1})
                      .set("keepdims", int64_t{0})
                      .in(integers({2, 2}, {kMin, kMax, kMax, kMax - 1}))
                      .result(),
                  TensorProto::INT64, {2}, {0, 1});
  expect_error([] { Use("ArgMax").in(floats({0, 2}, {})).result(); }, {"ArgMax: ", "0x2"});
  expect_error([&] { Use("ArgMax").set("axis", int64_t{99}).in(x).result(); },
               {"ArgMax: ", "axis 99"});
}

TEST(HeavyOperators, SoftmaxesPerAxisOrFlattened) {
  const Array x = floats({1, 2, 2}, {0, std::log(3.0), 0, 0});
  expect_array(Use("Softmax", 13).in(x).result(), {1, 2, 2}, {0.25, 0.75, 0.5, 0.5});
  expect_array(Use("Softmax", 11).in(x).result(), {1, 2, 2}, {1.0 / 6, 0.5, 1.0 / 6, 1.0 / 6});
  expect_array(Use("LogSoftmax", 13).in(x).result(), {1, 2, 2},
               {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
  expect_array(Use("Hardmax", 13).in(x).result(), {1, 2, 2}, {0, 1, 1, 0});
  expect_array(Use("Softmax", 13).in(floats({2}, {1e30, -1e30})).result(), {2}, {1, 0});
}

TEST(HeavyOperators, TopKTakesTheFirstOfEquals) {
  const Array x = floats({4}, {1, 7, 7, 3});
  std::vector<Array> y = Use("TopK").outputs(2).in(x).in(indices({3})).run();
  expect_array(y[0], {3}, {7, 7, 3});
  expect_integers(y[1], TensorProto::INT64, {3}, {1, 2, 3});
  y = Use("TopK").outputs(2).set("largest", int64_t{0}).in(x).in(indices({2})).run();
  expect_array(y[0], {2}, {1, 3});
  y = Use("TopK", 9).outputs(2).set("k", int64_t{1}).in(x).run();
  expect_integers(y[1], TensorProto::INT64, {1}, {1});
  expect_error([&] { Use("TopK").outputs(2).in(x).in(indices({5})).run(); }, {"TopK: ", "K is 5"});
  expect_error([&] { Use("TopK").outputs(2).in(x).in(indices({-1})).run(); }, {"TopK: ", "-1"});
}

TEST(HeavyOperators, TopKHasNanAsTheGreatest) {
  const Array x = floats({4}, {3, kNan, 1, kNan});
  std::vector<Array> y = Use("TopK").outputs(2).in(x).in(indices({3})).run();
  expect_array(y[0], {3}, {kNan, kNan, 3});
  expect_integers(y[1], TensorProto::INT64, {3}, {1, 3, 0});
  y = Use("TopK").outputs(2).set("largest", int64_t{0}).in(x).in(indices({3})).run();
  expect_array(y[0], {3}, {1, 3, kNan});
  expect_integers(y[1], TensorProto::INT64, {3}, {2, 0, 1});
  y = Use("TopK")
          .outputs(2)
          .set("largest", int64_t{0})
          .in(integers({3}, {kMin, kMax, 0}))
          .in(indices({3}))
          .run();
  expect_integers(y[0], TensorProto::INT64, {3}, {kMin, 0, kMax});
}

TEST(HeavyOperators, TopKOfANumberThatIsNotKnown) {
  const auto use = [](int64_t axis) {
    return Use("TopK").outputs(2).set("axis", axis).unknown(TensorProto::FLOAT, {2, 5});
  };
  const Operand found = use(0).unknown(TensorProto::INT64, {1}).inferred()[1];
  EXPECT_TRUE(found.is_bound);
  EXPECT_EQ(found.shape, (Shape{2, 5}));
  expect_error([&] { use(2).unknown(TensorProto::INT64, {1}).inferred(); }, {"TopK: ", "axis 2"});
  expect_error([&] { use(0).inferred(); }, {"TopK: ", "input 1 is missing"});
}

TEST(HeavyOperators, SuppressionOfBoxes) {
  const Array boxes = floats({1, 3, 4}, {0, 0, 1, 1, 1, 1.1, 0, 0.1, 0, 10, 1, 11});
  const Array scores = floats({1, 1, 3}, {0.5, 0.9, 0.1});
  const auto use = [&] {
    return Use("NonMaxSuppression").in(boxes).in(scores).in(indices({5})).in(floats({1}, {0.5}));
  };
  expect_integers(use().result(), TensorProto::INT64, {2, 3}, {0, 0, 1, 0, 0, 2});
  expect_integers(use().in(floats({1}, {0.2})).result(), TensorProto::INT64, {1, 3}, {0, 0, 1});
  const Operand bound = use().inferred().front();
  EXPECT_TRUE(bound.is_bound);
  EXPECT_EQ(bound.shape, (Shape{3, 3}));
  expect_error(
      [&] {
        Use("NonMaxSuppression").in(boxes).in(floats({1, 1, 2}, {0, 0})).in(indices({5})).result();
      },
      {"NonMaxSuppression: ", "1x1x2"});
}

TEST(HeavyOperators, BatchNormalization) {
  const Array x = floats({1, 2, 2}, {1, 3, 10, 10});
  const auto use = [&](int64_t opset) {
    return Use("BatchNormalization", opset)
        .set("epsilon", 0.0)
        .in(x)
        .in(floats({2}, {2, 1}))
        .in(floats({2}, {0, 5}))
        .in(floats({2}, {1, 8}))
        .in(floats({2}, {4, 1}));
  };
  expect_array(use(9).result(), {1, 2, 2}, {0, 2, 7, 7});
  const std::vector<Array> y = use(15)
                                   .set("training_mode", int64_t{1})
                                   .set("momentum", 0.5)
                                   .set("epsilon", 0.0)
                                   .outputs(3)
                                   .run();
  expect_array(y[1], {2}, {1.5, 9});
  expect_array(y[2], {2}, {2.5, 0.5});
  EXPECT_NEAR(y[0].at(0), -2, 1e-6);
  expect_error([&] { use(9).outputs(3).run(); }, {"BatchNormalization: ", "training"});
  expect_error(
      [&] {
        Use("BatchNormalization")
            .in(x)
            .in(floats({3}, {1, 1, 1}))
            .in(floats({2}, {0, 0}))
            .in(floats({2}, {0, 0}))
            .in(floats({2}, {0, 0}))
            .result();
      },
      {"BatchNormalization: ", "scale", "3"});
}

TEST(HeavyOperators, LayerAndGroupNormalization) {
  const Array x = floats({1, 4}, {1, 3, 5, 9});
  std::vector<Array> y = Use("LayerNormalization")
                             .set("epsilon", 0.0)
                             .outputs(3)
                             .in(floats({2, 2}, {1, 3, 5, 9}))
                             .in(floats({2}, {1, 10}))
                             .in(floats({2}, {0, 1}))
                             .run();
  expect_array(y[0], {2, 2}, {-1, 11, -1, 11});
  expect_array(y[1], {2, 1}, {2, 7});
  expect_array(y[2], {2, 1}, {1, 0.5});
  const Array by_group = Use("GroupNormalization", 18)
                             .set("num_groups", int64_t{2})
                             .set("epsilon", 0.0)
                             .in(x)
                             .in(floats({2}, {1, 2}))
                             .in(floats({2}, {0, 1}))
                             .result();
  expect_array(by_group, {1, 4}, {-1, 1, -1, 3});
  const Array by_channel = Use("GroupNormalization", 21)
                               .set("num_groups", int64_t{2})
                               .set("epsilon", 0.0)
                               .in(x)
                               .in(floats({4}, {1, 2, 3, 4}))
                               .in(floats({4}, {0, 0, 0, 1}))
                               .result();
  expect_array(by_channel, {1, 4}, {-1, 2, -3, 5});
  expect_array(Use("RMSNormalization", 23)
                   .set("epsilon", 0.0)
                   .in(floats({1, 2}, {1, 7}))
                   .in(floats({2}, {1, 2}))
                   .result(),
               {1, 2}, {0.2, 2.8});
  expect_error(
      [&] {
        Use("GroupNormalization")
            .set("num_groups", int64_t{3})
            .in(x)
            .in(floats({4}, {1, 1, 1, 1}))
            .in(floats({4}, {0, 0, 0, 0}))
            .result();
      },
      {"GroupNormalization: ", "num_groups 3", "4"});
}

TEST(HeavyOperators, LrnAndNorms) {
  const Array x = floats({1, 3, 1}, {1, 2, 3});
  expect_array(Use("LRN")
                   .set("size", int64_t{2})
                   .set("alpha", 2.0)
                   .set("beta", 1.0)
                   .set("bias", 1.0)
                   .in(x)
                   .result(),
               {1, 3, 1}, {1.0 / 6, 2.0 / 14, 3.0 / 10});
  expect_array(Use("LpNormalization").in(floats({2, 2}, {3, -4, 0, 0})).result(), {2, 2},
               {0.6, -0.8, 0, 0});
  expect_error([&] { Use("LRN").set("size", int64_t{0}).in(x).result(); }, {"LRN: ", "size is 0"});
  expect_error([&] { Use("LpNormalization").set("p", int64_t{3}).in(x).result(); },
               {"LpNormalization: ", "p is 3"});
}

TEST(HeavyOperators, Products) {
  const Array a = floats({2, 2}, {1, 2, 3, 4});
  const Array v = floats({2}, {10, 100});
  expect_array(Use("MatMul").in(a).in(v).result(), {2}, {210, 430});
  expect_array(Use("MatMul").in(v).in(a).result(), {2}, {310, 420});
  expect_array(Use("MatMul").in(v).in(v).result(), {}, {10100});
  expect_array(Use("MatMul").in(floats({2, 1, 2}, {1, 0, 0, 1})).in(a).result(), {2, 1, 2},
               {1, 2, 3, 4});
  expect_integers(Use("MatMul").in(integers({1}, {kMax})).in(integers({1}, {2})).result(),
                  TensorProto::INT64, {}, {-2});
  expect_array(Use("Gemm")
                   .set("transA", int64_t{1})
                   .set("alpha", 2.0)
                   .set("beta", 0.5)
                   .in(a)
                   .in(floats({1, 2}, {1, 10}))
                   .set("transB", int64_t{1})
                   .in(floats({}, {4}))
                   .result(),
               {2, 1}, {64, 86});
  expect_array(Use("Det").in(floats({2, 2, 2}, {0, 2, 3, 4, 1, 2, 2, 4})).result(), {2}, {-6, 0});
  expect_error(
      [&] {
        Use("MatMul").in(a).in(floats({3}, {1, 2, 3})).result();
      },
      {"MatMul: ", "2x2"});
  expect_error([&] { Use("MatMul").in(a).in(floats({}, {1})).result(); }, {"MatMul: ", "scalar"});
  expect_error(
      [&] {
        Use("Gemm").in(a).in(a).in(floats({3}, {1, 2, 3})).result();
      },
      {"Gemm: ", "C has shape 3"});
  expect_error(
      [] {
        Use("MatMul")
            .unknown(TensorProto::FLOAT, Shape{int64_t{1} << 30, 1})
            .unknown(TensorProto::FLOAT, Shape{1, int64_t{1} << 30})
            .inferred();
      },
      {"MatMul: ", "elements"});
}

TEST(HeavyOperators, Einsum) {
  const Array a = floats({2, 2}, {1, 2, 3, 4});
  const auto of = [](const char* equation) { return Use("Einsum").set("equation", equation); };
  expect_array(of("ij->ji").in(a).result(), {2, 2}, {1, 3, 2, 4});
  expect_array(of("ii").in(a).result(), {}, {5});
  expect_array(of("ii->i").in(a).result(), {2}, {1, 4});
  expect_array(of("ij,jk").in(a).in(a).result(), {2, 2}, {7, 10, 15, 22});
  expect_array(of("...i, i -> ...").in(a).in(floats({2}, {1, 10})).result(), {2}, {21, 43});
  expect_array(of("i...,...->i").in(a).in(floats({}, {2})).result(), {2}, {6, 14});
  expect_error([&] { of("ij->jk").in(a).result(); }, {"Einsum: ", "'k'"});
  expect_error([&] { of("ijk").in(a).result(); }, {"Einsum: ", "'ijk'"});
  expect_error([&] { of("ij,jk").in(a).result(); }, {"Einsum: ", "2 terms"});
  expect_error([&] { of("i1").in(a).result(); }, {"Einsum: ", "'i1'"});
  expect_error(
      [&] {
        of("ij,jk").in(a).in(floats({3, 1}, {1, 2, 3})).result();
      },
      {"Einsum: ", "axis 'j'"});
}

TEST(HeavyOperators, Quantization) {
  const auto u8 = TensorProto::UINT8;
  const auto quantize = [] { return Use("QuantizeLinear").in(floats({4}, {0, 1, 5, -1000})); };
  expect_integers(quantize().in(floats({}, {2})).in(integers({}, {128}, u8)).result(), u8, {4},
                  {128, 128, 130, 0});
  expect_integers(quantize().in(floats({}, {2})).result(), u8, {4}, {0, 0, 2, 0});
  expect_array(Use("DequantizeLinear")
                   .in(integers({2, 2}, {1, 2, 3, 4}, u8))
                   .in(floats({2}, {1, 10}))
                   .in(integers({2}, {1, 2}, u8))
                   .result(),
               {2, 2}, {0, 0, 2, 20});
  expect_array(Use("DequantizeLinear")
                   .set("axis", int64_t{0})
                   .set("block_size", int64_t{2})
                   .in(integers({3, 1}, {1, 1, 1}, u8))
                   .in(floats({2, 1}, {1, 10}))
                   .result(),
               {3, 1}, {1, 1, 10});
  const std::vector<Array> y =
      Use("DynamicQuantizeLinear").outputs(3).in(floats({3}, {-1, 0, 4.1})).run();
  expect_integers(y[0], u8, {3}, {0, 50, 255});
  expect_array(y[1], {}, {0.02});
  expect_integers(y[2], u8, {}, {50});
  expect_error(
      [&] {
        quantize().in(floats({3}, {1, 1, 1})).set("axis", int64_t{0}).result();
      },
      {"QuantizeLinear: ", "3 values"});
  expect_error([&] { quantize().in(floats({}, {1})).set("output_dtype", int64_t{17}).result(); },
               {"QuantizeLinear: ", "FLOAT8E4M3FN"});
  expect_error(
      [&] {
        quantize().in(floats({2, 2}, {1, 1, 1, 1})).set("axis", int64_t{0}).result();
      },
      {"QuantizeLinear: ", "block_size"});
}

TEST(HeavyOperators, QuantizedValuesAreIntegers) {
  const Array x = floats({2, 2}, {1, 2, 3, 4}), scale = floats({}, {0.5});
  const Array bytes = integers({2, 2}, {1, 2, 3, 4}, TensorProto::UINT8);
  const Array zero = integers({}, {0}, TensorProto::UINT8);
  expect_error([&] { Use("MatMulInteger", 10).in(bytes).in(x).inferred(); },
               {"MatMulInteger: ", "input 1", "FLOAT", "integers"});
  expect_error([&] { Use("DequantizeLinear").in(x).in(scale).inferred(); },
               {"DequantizeLinear: ", "input 0", "FLOAT"});
  expect_error([&] { Use("QuantizeLinear").in(x).in(zero).inferred(); },
               {"QuantizeLinear: ", "the scale", "UINT8"});
  expect_error([&] { Use("DynamicQuantizeLinear", 11).in(bytes).inferred(); },
               {"DynamicQuantizeLinear: ", "UINT8"});
  Use product("QLinearMatMul");
  product.in(bytes).in(scale).in(zero).in(bytes).in(scale).in(zero).in(scale).in(scale);
  expect_error([&] { product.inferred(); }, {"QLinearMatMul: ", "input 7"});
}

TEST(HeavyOperators, QuantizedProducts) {
  const auto u8 = TensorProto::UINT8;
  expect_integers(Use("MatMulInteger")
                      .in(integers({2, 2}, {1, 2, 3, 4}, u8))
                      .in(integers({2, 1}, {5, 6}, u8))
                      .in(integers({2}, {0, 3}, u8))
                      .in(integers({}, {5}, u8))
                      .result(),
                  TensorProto::INT32, {2, 1}, {2, 1});
  const auto product = [&](const char* op, const Shape& a, const Shape& b) {
    return Use(op)
        .in(integers(a, {2, 4}, u8))
        .in(floats({}, {0.5}))
        .in(integers({}, {0}, u8))
        .in(integers(b, {3, 1}, u8))
        .in(floats({}, {2}))
        .in(integers({}, {1}, u8))
        .in(floats({}, {0.5}))
        .in(integers({}, {10}, u8));
  };
  expect_integers(product("QLinearMatMul", {1, 2}, {2, 1}).result(), u8, {1, 1}, {18});
  expect_integers(product("QLinearConv", {1, 1, 2}, {1, 1, 2})
                      .in(integers({1}, {3}, TensorProto::INT32))
                      .result(),
                  u8, {1, 1, 1}, {24});
}

TEST(HeavyOperators, Losses) {
  const Array scores = floats({2, 2}, {0, std::log(3.0), 0, 0});
  const double first = -std::log(0.75);
  const double second = -std::log(0.5);
  const auto loss = [&](Ints labels) {
    return Use("SoftmaxCrossEntropyLoss").in(scores).in(integers({2}, std::move(labels)));
  };
  expect_array(loss({1, 0}).result(), {}, {(first + second) / 2});
  expect_array(loss({1, 0}).set("reduction", "none").result(), {2}, {first, second});
  expect_array(loss({1, 0}).in(floats({2}, {1, 3})).result(), {}, {(first * 3 + second) / 4});
  expect_array(loss({1, -7}).set("ignore_index", int64_t{-7}).result(), {}, {first});
  expect_array(loss({1, 0}).set("reduction", "sum").outputs(2).run()[1], {2, 2},
               {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
  expect_array(Use("NegativeLogLikelihoodLoss")
                   .set("reduction", "sum")
                   .in(floats({1, 2, 2}, {1, 2, 3, 4}))
                   .in(integers({1, 2}, {1, 0}))
                   .result(),
               {}, {-5});
  expect_error([&] { loss({1, 2}).result(); }, {"SoftmaxCrossEntropyLoss: ", "label 2"});
  expect_error([&] { loss({1, -1}).result(); }, {"SoftmaxCrossEntropyLoss: ", "label -1"});
  expect_error(
      [&] {
        loss({1, 0}).set("reduction", "max").result();
      },
      {"SoftmaxCrossEntropyLoss: ", "'max'"});
}

TEST(HeavyOperators, Attention) {
  // One head of one element: with equal logits, the mean of the values seen.
  const Array q = floats({1, 1, 2, 1}, {0, 0});
  const Array k = floats({1, 1, 2, 1}, {5, 6});
  const Array v = floats({1, 1, 2, 1}, {10, 20});
  const auto attention = [&] { return Use("Attention", 23).in(q).in(k).in(v); };
  expect_array(attention().result(), {1, 1, 2, 1}, {15, 15});
  expect_array(attention().set("is_causal", int64_t{1}).result(), {1, 1, 2, 1}, {10, 15});
  expect_array(attention().in(bools({2, 2}, {0, 1, 0, 0})).result(), {1, 1, 2, 1}, {20, 0});
  expect_array(attention().in(floats({1}, {0})).result(), {1, 1, 2, 1}, {10, 10});
  const std::vector<Array> y = attention()
                                   .none()
                                   .in(floats({1, 1, 1, 1}, {7}))
                                   .in(floats({1, 1, 1, 1}, {60}))
                                   .outputs(3)
                                   .run();
  expect_array(y[0], {1, 1, 2, 1}, {30, 30});
  expect_array(y[1], {1, 1, 3, 1}, {7, 5, 6});
  expect_array(y[2], {1, 1, 3, 1}, {60, 10, 20});
  expect_error(
      [&] {
        attention().none().in(floats({1, 1, 1, 1}, {7})).result();
      },
      {"Attention: ", "past_key"});
  expect_error(
      [&] {
        attention().in(bools({3, 2}, {1, 1, 1, 1, 1, 1})).result();
      },
      {"Attention: ", "3x2"});
  const Array flat = floats({1, 1, 3}, {1, 2, 3});
  expect_error(
      [&] {
        Use("Attention", 23)
            .set("q_num_heads", int64_t{2})
            .set("kv_num_heads", int64_t{0})
            .in(flat)
            .in(flat)
            .in(flat)
            .result();
      },
      {"Attention: ", "2 heads"});
}

TEST(HeavyOperators, RotaryEmbedding) {
  const auto rotary = [](int64_t position) {
    return Use("RotaryEmbedding", 23)
        .in(floats({1, 1, 1, 2}, {3, 4}))
        .in(floats({2, 1}, {1, 0}))
        .in(floats({2, 1}, {0, 1}))
        .in(integers({1, 1}, {position}));
  };
  expect_array(rotary(0).result(), {1, 1, 1, 2}, {3, 4});
  expect_array(rotary(1).result(), {1, 1, 1, 2}, {-4, 3});
  expect_error([&] { rotary(2).result(); }, {"RotaryEmbedding: ", "position is 2"});
}

Use rnn(std::vector<double> x) {
  const auto length = static_cast<int64_t>(x.size());
  return Use("RNN")
      .in(floats({length, 1, 1}, std::move(x)))
      .in(floats({1, 1, 1}, {1}))
      .in(floats({1, 1, 1}, {2}))
      .outputs(2);
}

TEST(HeavyOperators, RecurrentNets) {
  std::vector<Array> y = rnn({0.1, 0.2}).run();
  const double h1 = std::tanh(0.1);
  const double h2 = std::tanh(0.2 + 2 * h1);
  expect_array(y[0], {2, 1, 1, 1}, {h1, h2});
  expect_array(y[1], {1, 1, 1}, {h2});
  y = rnn({0.1, 0.2}).set("direction", "reverse").run();
  const double last = std::tanh(0.2);
  expect_array(y[0], {2, 1, 1, 1}, {std::tanh(0.1 + 2 * last), last});
  y = rnn({0.1, 0.2}).none().in(integers({1}, {1}, TensorProto::INT32)).run();
  expect_array(y[0], {2, 1, 1, 1}, {h1, 0});
  expect_array(y[1], {1, 1, 1}, {h1});
  expect_array(rnn({5}).set("clip", 0.5).result(), {1, 1, 1, 1}, {std::tanh(0.5)});
  expect_error([] { rnn({1}).none().in(integers({1}, {2}, TensorProto::INT32)).run(); },
               {"RNN: ", "is 2"});
  expect_error([] { rnn({1}).set("hidden_size", int64_t{3}).run(); }, {"RNN: ", "hidden_size 3"});
  expect_error([] { rnn({1}).set("direction", "both").run(); }, {"RNN: ", "'both'"});
}

TEST(HeavyOperators, LstmAndGru) {
  const auto ones = [](const Shape& shape) {
    return floats(shape, std::vector<double>(static_cast<size_t>(shape.count()), 1));
  };
  const double gate = 1 / (1 + std::exp(-1.0));
  const double cell = gate * std::tanh(1.0);
  std::vector<Array> y =
      Use("LSTM").in(ones({1, 1, 1})).in(ones({1, 4, 1})).in(ones({1, 4, 1})).outputs(3).run();
  expect_array(y[2], {1, 1, 1}, {cell});
  expect_array(y[1], {1, 1, 1}, {gate * std::tanh(cell)});
  // The output gate sees the new cell.
  y = Use("LSTM")
          .in(ones({1, 1, 1}))
          .in(ones({1, 4, 1}))
          .in(ones({1, 4, 1}))
          .none()
          .none()
          .none()
          .none()
          .in(ones({1, 3}))
          .outputs(2)
          .run();
  expect_array(y[1], {1, 1, 1}, {std::tanh(cell) / (1 + std::exp(-1 - cell))});
  y = Use("GRU").in(ones({1, 1, 1})).in(ones({1, 3, 1})).in(ones({1, 3, 1})).run();
  expect_array(y[0], {1, 1, 1, 1}, {(1 - gate) * std::tanh(1.0)});
  y = Use("GRU")
          .set("layout", int64_t{1})
          .set("direction", "bidirectional")
          .in(ones({1, 2, 1}))
          .in(ones({2, 3, 1}))
          .in(ones({2, 3, 1}))
          .outputs(2)
          .run();
  EXPECT_EQ(y[0].shape(), (Shape{1, 2, 2, 1}));
  EXPECT_EQ(y[1].shape(), (Shape{1, 2, 1}));
  EXPECT_DOUBLE_EQ(y[0].at(0), y[0].at(3));  // first of one direction, first of the other
  expect_error(
      [&] {
        Use("LSTM").in(ones({1, 1, 1})).in(ones({1, 3, 1})).in(ones({1, 4, 1})).run();
      },
      {"LSTM: ", "W has shape 1x3x1"});
}

TEST(HeavyOperators, Signals) {
  const Array x = floats({1, 4, 1}, {1, 2, 3, 4});
  expect_array(Use("DFT", 20).in(x).result(), {1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2});
  expect_array(Use("DFT", 17).set("onesided", int64_t{1}).in(x).result(), {1, 3, 2},
               {10, 0, -2, 2, -2, 0});
  expect_array(Use("DFT", 20)
                   .set("onesided", int64_t{1})
                   .set("inverse", int64_t{1})
                   .in(floats({1, 3, 2}, {10, 0, -2, 2, -2, 0}))
                   .result(),
               {1, 4, 1}, {1, 2, 3, 4});
  expect_array(Use("STFT", 17).in(x).in(integers({}, {2})).in(floats({2}, {1, 0.5})).result(),
               {1, 2, 2, 2}, {2, 0, 0, 0, 5, 0, 1, 0});
  expect_array(Use("HannWindow", 17).in(integers({}, {4})).result(), {4}, {0, 0.5, 1, 0.5});
  expect_error([&] { Use("DFT", 20).in(x).in(integers({}, {0})).result(); }, {"DFT: ", "is 0"});
  expect_error([&] { Use("DFT", 20).in(x).in(integers({}, {kHuge})).result(); },
               {"DFT: ", "4611686018427387904"});
  expect_error([&] { Use("STFT", 17).in(x).in(integers({}, {0})).result(); },
               {"STFT: ", "frame_step is 0"});
  expect_error([] { Use("HannWindow", 17).in(integers({}, {-1})).result(); },
               {"HannWindow: ", "-1"});
}

}  // namespace
}  // namespace crema::onnx
