// What operators of single elements give, with values by hand, and what they refuse.

#include <cmath>
#include <ostream>

#include "onnx/operator_use.hpp"
#include "support/expect_error.hpp"

namespace crema::onnx {
namespace {

struct FunctionCase {
  const char* op;
  std::vector<double> x;
  std::vector<double> y;
};

void PrintTo(const FunctionCase& test, std::ostream* out) { *out << test.op; }

class FunctionOperator : public testing::TestWithParam<FunctionCase> {};

TEST_P(FunctionOperator, GivesValuesOfItsDefaults) {
  const FunctionCase& test = GetParam();
  const Shape shape{static_cast<int64_t>(test.x.size())};
  for (const ElementType type : {TensorProto::FLOAT, TensorProto::DOUBLE}) {
    const Array y = Use(test.op).in(floats(shape, test.x, type)).result();
    EXPECT_EQ(y.type(), type);
    expect_array(y, shape, test.y);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FunctionOperator,
    testing::Values(
        FunctionCase{"Abs", {-2, 0, 3}, {2, 0, 3}}, FunctionCase{"Acos", {1, 0}, {0, 1.57079633}},
        FunctionCase{"Acosh", {1, 2}, {0, 1.31695790}},
        FunctionCase{"Asin", {0, 1}, {0, 1.57079633}},
        FunctionCase{"Asinh", {0, 1}, {0, 0.88137359}},
        FunctionCase{"Atan", {0, 1}, {0, 0.78539816}},
        FunctionCase{"Atanh", {0, 0.5}, {0, 0.54930614}},
        FunctionCase{"Ceil", {-1.5, 1.2}, {-1, 2}},
        FunctionCase{"Celu", {-1, 0, 2}, {-0.63212056, 0, 2}},
        FunctionCase{"Cos", {0, 1}, {1, 0.54030231}}, FunctionCase{"Cosh", {0, 1}, {1, 1.54308063}},
        FunctionCase{"Elu", {-1, 0, 2}, {-0.63212056, 0, 2}},
        FunctionCase{"Erf", {0, 1, -1}, {0, 0.84270079, -0.84270079}},
        FunctionCase{"Exp", {0, 1}, {1, 2.71828183}}, FunctionCase{"Floor", {-1.5, 1.8}, {-2, 1}},
        FunctionCase{"Gelu", {-1, 0, 1}, {-0.15865525, 0, 0.84134475}},
        FunctionCase{"HardSigmoid", {-3, 0, 1, 9}, {0, 0.5, 0.7, 1}},
        FunctionCase{"HardSwish", {-4, -1, 1, 4}, {0, -1.0 / 3, 2.0 / 3, 4}},
        FunctionCase{"LeakyRelu", {-2, 3}, {-0.02, 3}},
        FunctionCase{"Log", {1, 2, 0}, {0, 0.69314718, -kInf}},
        FunctionCase{"Mish", {-1, 0, 1}, {-0.30340146, 0, 0.86509839}},
        FunctionCase{"Neg", {-2, 3}, {2, -3}}, FunctionCase{"Reciprocal", {2, -4}, {0.5, -0.25}},
        FunctionCase{"Relu", {-2, 0, 3}, {0, 0, 3}},
        FunctionCase{"Round", {0.5, 1.5, 2.5, -2.5, 2.6, kNan}, {0, 2, 2, -2, 3, kNan}},
        FunctionCase{"Selu", {-1, 2}, {-1.11133074, 2.10140197}},
        FunctionCase{"Shrink", {-2, -0.25, 0.25, 2}, {-2, 0, 0, 2}},
        FunctionCase{"Sigmoid", {0, 1, -1000, 1000}, {0.5, 0.73105858, 0, 1}},
        FunctionCase{"Sign", {-3, 0, 2, kNan}, {-1, 0, 1, kNan}},
        FunctionCase{"Sin", {0, 1}, {0, 0.84147098}}, FunctionCase{"Sinh", {0, 1}, {0, 1.17520119}},
        FunctionCase{"Softplus", {0, 1000, -1000}, {0.69314718, 1000, 0}},
        FunctionCase{"Softsign", {-1, 3}, {-0.5, 0.75}}, FunctionCase{"Sqrt", {4, -1}, {2, kNan}},
        FunctionCase{"Swish", {0, 1, -1}, {0, 0.73105858, -0.26894142}},
        FunctionCase{"Tan", {0, 1}, {0, 1.55740772}}, FunctionCase{"Tanh", {0, 1}, {0, 0.76159416}},
        FunctionCase{"ThresholdedRelu", {0.5, 1, 1.5}, {0, 0, 1.5}}),
    [](const auto& test) { return std::string(test.param.op); });

TEST(Operators, FunctionsTakeTheirAttributes) {
  const Array x = floats({3}, {-2, 1, 4});
  expect_array(Use("LeakyRelu").set("alpha", 0.5).in(x).result(), {3}, {-1, 1, 4});
  expect_array(Use("Elu").set("alpha", 2.0).in(x).result(), {3}, {-1.72932943, 1, 4});
  expect_array(Use("Celu").set("alpha", 2.0).in(x).result(), {3}, {-1.26424112, 1, 4});
  expect_array(Use("Selu").set("alpha", 1.0).set("gamma", 2.0).in(x).result(), {3},
               {-1.72932943, 2, 8});
  expect_array(Use("HardSigmoid").set("alpha", 0.5).set("beta", 0.25).in(x).result(), {3},
               {0, 0.75, 1});
  expect_array(Use("ThresholdedRelu").set("alpha", 3.0).in(x).result(), {3}, {0, 0, 4});
  expect_array(Use("Shrink").set("lambd", 1.5).set("bias", 0.5).in(x).result(), {3},
               {-1.5, 0, 3.5});
  expect_array(Use("Swish").set("alpha", 2.0).in(x).result(), {3},
               {-0.03597242, 0.88079708, 3.99865860});
  expect_array(Use("Gelu").set("approximate", "tanh").in(x).result(), {3},
               {-0.04540231, 0.84119199, 3.99992973});
  expect_error([&] { Use("Gelu").set("approximate", "erf").in(x).result(); }, {"Gelu: ", "'erf'"});
  expect_error([&] { Use("Elu").set("alpha", int64_t{1}).in(x).result(); },
               {"Elu: ", "alpha", "INT", "FLOAT"});
  expect_error([] { Use("Exp").in(indices({1})).result(); }, {"Exp: ", "INT64", "floats"});
  expect_error([&] { Use("Exp").in(x).in(x).result(); }, {"Exp: ", "2 inputs"});
  expect_error([] { Use("Exp").result(); }, {"Exp: ", "input 0 is missing"});
  expect_error([&] { Use("Exp").in(x).outputs(2).result(); }, {"Exp: ", "2 outputs"});
}

TEST(Operators, FunctionsOfIntegers) {
  expect_integers(Use("Abs").in(integers({3}, {-5, 5, kMin})).result(), TensorProto::INT64, {3},
                  {5, 5, kMin});
  expect_integers(Use("Neg").in(integers({2}, {-128, 3}, TensorProto::INT8)).result(),
                  TensorProto::INT8, {2}, {-128, -3});
  expect_integers(Use("Sign").in(integers({2}, {-1, 0}, TensorProto::UINT64)).result(),
                  TensorProto::UINT64, {2}, {1, 0});
  expect_integers(Use("Relu").in(integers({2}, {-7, 7}, TensorProto::INT32)).result(),
                  TensorProto::INT32, {2}, {0, 7});
  expect_error([] { Use("Abs").in(bools({1}, {1})).result(); }, {"Abs: ", "BOOL"});
}

TEST(Operators, ClipByAttributesOrInputs) {
  const Array x = floats({4}, {-2, 0, 2, kNan});
  expect_array(Use("Clip", 6).set("min", -1.0).set("max", 1.0).in(x).result(), {4},
               {-1, 0, 1, kNan});
  expect_array(Use("Clip", 6).in(x).result(), {4}, {-2, 0, 2, kNan});
  expect_array(Use("Clip").in(x).none().in(floats({}, {1})).result(), {4}, {-2, 0, 1, kNan});
  expect_array(Use("Clip").in(x).in(floats({}, {2})).in(floats({}, {1})).result(), {4},
               {1, 1, 1, kNan});
  const auto u64 = TensorProto::UINT64;
  expect_integers(
      Use("Clip").in(integers({3}, {0, 5, -1}, u64)).in(integers({}, {1}, u64)).result(), u64, {3},
      {1, 5, -1});
  expect_error([&] { Use("Clip").in(x).in(indices({1})).result(); }, {"Clip: ", "INT64", "FLOAT"});
  expect_error([&] { Use("Clip").in(x).in(floats({2}, {1, 2})).result(); }, {"Clip: ", "scalar"});
}

TEST(Operators, TestsOfFloats) {
  const Array x = floats({4}, {kInf, -kInf, kNan, 1});
  expect_integers(Use("IsNaN").in(x).result(), TensorProto::BOOL, {4}, {0, 0, 1, 0});
  expect_integers(Use("IsInf").in(x).result(), TensorProto::BOOL, {4}, {1, 1, 0, 0});
  expect_integers(Use("IsInf").set("detect_negative", int64_t{0}).in(x).result(), TensorProto::BOOL,
                  {4}, {1, 0, 0, 0});
  expect_integers(Use("IsInf").set("detect_positive", int64_t{0}).in(x).result(), TensorProto::BOOL,
                  {4}, {0, 1, 0, 0});
}

TEST(Operators, PReluBroadcastsItsSlopesToTheValues) {
  const Array x = floats({2, 2}, {-1, 1, -2, -3});
  expect_array(Use("PRelu").in(x).in(floats({2}, {0.5, 2})).result(), {2, 2}, {-0.5, 1, -1, -6});
  expect_array(Use("PRelu").in(x).in(floats({2, 1}, {0.5, 2})).result(), {2, 2}, {-0.5, 1, -4, -6});
  expect_error(
      [&] {
        Use("PRelu").in(floats({2}, {1, 2})).in(x).result();
      },
      {"PRelu: ", "2x2", "do not broadcast"});
}

TEST(Operators, ArithmeticBroadcasts) {
  const Array a = floats({2, 1}, {1, 2});
  const Array b = floats({3}, {10, 20, -4});
  expect_array(Use("Add").in(a).in(b).result(), {2, 3}, {11, 21, -3, 12, 22, -2});
  expect_array(Use("Sub").in(a).in(b).result(), {2, 3}, {-9, -19, 5, -8, -18, 6});
  expect_array(Use("Mul").in(a).in(b).result(), {2, 3}, {10, 20, -4, 20, 40, -8});
  expect_array(Use("Div").in(a).in(b).result(), {2, 3}, {0.1, 0.05, -0.25, 0.2, 0.1, -0.5});
  expect_array(Use("Max").in(a).in(b).in(floats({}, {2})).result(), {2, 3}, {10, 20, 2, 10, 20, 2});
  expect_array(Use("Min").in(a).in(b).result(), {2, 3}, {1, 1, -4, 2, 2, -4});
  expect_array(Use("Sum").in(a).in(b).in(a).result(), {2, 3}, {12, 22, -2, 14, 24, 0});
  expect_array(Use("Mean").in(a).in(b).result(), {2, 3}, {5.5, 10.5, -1.5, 6, 11, -1});
  expect_array(Use("Max").in(floats({2}, {kNan, 1})).in(floats({2}, {1, kNan})).result(), {2},
               {kNan, kNan});
  expect_array(Use("Sum").in(b).result(), {3}, {10, 20, -4});
  expect_error(
      [&] {
        Use("Add").in(a).in(floats({4, 3}, std::vector<double>(12))).result();
      },
      {"Add: ", "2x1", "4x3"});
  expect_error([&] { Use("Add").in(a).in(indices({1})).result(); }, {"Add: ", "INT64", "FLOAT"});
  expect_error([&] { Use("Add").in(a).result(); }, {"Add: ", "input 1 is missing"});
  expect_error([] { Use("Sum").in(indices({1})).result(); }, {"Sum: ", "INT64"});
}

TEST(Operators, IntegersWrapAroundAndTruncate) {
  expect_integers(Use("Add").in(indices({kMax})).in(indices({1})).result(), TensorProto::INT64, {1},
                  {kMin});
  expect_integers(Use("Div").in(indices({7, -7, kMin})).in(indices({2, 2, -1})).result(),
                  TensorProto::INT64, {3}, {3, -3, kMin});
  const auto u64 = TensorProto::UINT64;
  expect_integers(Use("Div").in(integers({1}, {-1}, u64)).in(integers({1}, {2}, u64)).result(), u64,
                  {1}, {kMax});
  expect_integers(Use("Max").in(integers({1}, {-1}, u64)).in(integers({1}, {2}, u64)).result(), u64,
                  {1}, {-1});
  expect_integers(Use("Mul")
                      .in(integers({1}, {100}, TensorProto::INT8))
                      .in(integers({1}, {3}, TensorProto::INT8))
                      .result(),
                  TensorProto::INT8, {1}, {44});
  expect_error([] { Use("Div").in(indices({1})).in(indices({0})).result(); },
               {"Div: ", "divided by 0"});
  expect_error([] { Use("Mod").in(indices({1})).in(indices({0})).result(); },
               {"Mod: ", "divided by 0"});
}

TEST(Operators, ModHasTheSignOfTheDivisorOrOfTheDividend) {
  const Array a = indices({-4, 7, 5, 4, -7, 8, kMin});
  const Array b = indices({2, -3, 8, -2, 3, 5, -1});
  expect_integers(Use("Mod").in(a).in(b).result(), TensorProto::INT64, {7}, {0, -2, 5, 0, 2, 3, 0});
  expect_integers(Use("Mod").set("fmod", int64_t{1}).in(a).in(b).result(), TensorProto::INT64, {7},
                  {0, 1, 5, 0, -1, 3, 0});
  expect_array(Use("Mod")
                   .set("fmod", int64_t{1})
                   .in(floats({2}, {-4.5, 7.5}))
                   .in(floats({2}, {2, -2}))
                   .result(),
               {2}, {-0.5, 1.5});
}

TEST(Operators, PowHasTheTypeOfItsBase) {
  expect_array(Use("Pow").in(floats({2}, {2, 9})).in(floats({2}, {3, 0.5})).result(), {2}, {8, 3});
  expect_integers(Use("Pow").in(indices({2, -3})).in(floats({2}, {3, 2})).result(),
                  TensorProto::INT64, {2}, {8, 9});
  expect_integers(Use("Pow").in(indices({3, 2, -1, 5})).in(indices({40, 64, -3, -1})).result(),
                  TensorProto::INT64, {4}, {-6289078614652622815, 0, -1, 0});
  expect_error([] { Use("Pow").in(indices({0})).in(indices({-1})).result(); }, {"Pow: ", "-1"});
}

TEST(Operators, BitsAndShifts) {
  const auto u8 = TensorProto::UINT8;
  const Array x = integers({3}, {16, 4, 255}, u8);
  const Array shifts = integers({3}, {1, 8, 100}, u8);
  expect_integers(Use("BitShift").set("direction", "LEFT").in(x).in(shifts).result(), u8, {3},
                  {32, 0, 0});
  expect_integers(Use("BitShift").set("direction", "RIGHT").in(x).in(shifts).result(), u8, {3},
                  {8, 0, 0});
  expect_error([&] { Use("BitShift").in(x).in(shifts).result(); }, {"BitShift: ", "LEFT or RIGHT"});
  expect_error(
      [] { Use("BitShift").set("direction", "LEFT").in(indices({1})).in(indices({1})).result(); },
      {"BitShift: ", "INT64"});
  const Array a = integers({2}, {12, -1}, TensorProto::INT32);
  const Array b = integers({2}, {10, 5}, TensorProto::INT32);
  expect_integers(Use("BitwiseAnd").in(a).in(b).result(), TensorProto::INT32, {2}, {8, 5});
  expect_integers(Use("BitwiseOr").in(a).in(b).result(), TensorProto::INT32, {2}, {14, -1});
  expect_integers(Use("BitwiseXor").in(a).in(b).result(), TensorProto::INT32, {2}, {6, -6});
  expect_integers(Use("BitwiseNot").in(x).result(), u8, {3}, {239, 251, 0});
}

TEST(Operators, LogicAndComparisons) {
  const Array a = bools({4}, {0, 0, 1, 1});
  const Array b = bools({4}, {0, 1, 0, 1});
  expect_integers(Use("And").in(a).in(b).result(), TensorProto::BOOL, {4}, {0, 0, 0, 1});
  expect_integers(Use("Or").in(a).in(b).result(), TensorProto::BOOL, {4}, {0, 1, 1, 1});
  expect_integers(Use("Xor").in(a).in(b).result(), TensorProto::BOOL, {4}, {0, 1, 1, 0});
  expect_integers(Use("Not").in(a).result(), TensorProto::BOOL, {4}, {1, 1, 0, 0});
  expect_integers(Use("Equal").in(a).in(b).result(), TensorProto::BOOL, {4}, {1, 0, 0, 1});
  const Array x = floats({3}, {1, 2, kNan});
  const Array y = floats({3}, {2, 2, kNan});
  expect_integers(Use("Equal").in(x).in(y).result(), TensorProto::BOOL, {3}, {0, 1, 0});
  expect_integers(Use("Less").in(x).in(y).result(), TensorProto::BOOL, {3}, {1, 0, 0});
  expect_integers(Use("LessOrEqual").in(x).in(y).result(), TensorProto::BOOL, {3}, {1, 1, 0});
  expect_integers(Use("Greater").in(y).in(x).result(), TensorProto::BOOL, {3}, {1, 0, 0});
  expect_integers(Use("GreaterOrEqual").in(y).in(x).result(), TensorProto::BOOL, {3}, {1, 1, 0});
  // 2^53 + 1 is no double.
  const int64_t large = (int64_t{1} << 53) + 1;
  expect_integers(Use("Equal").in(indices({large})).in(indices({large - 1})).result(),
                  TensorProto::BOOL, {1}, {0});
  const auto u64 = TensorProto::UINT64;
  expect_integers(Use("Greater").in(integers({1}, {-1}, u64)).in(integers({1}, {1}, u64)).result(),
                  TensorProto::BOOL, {1}, {1});
  expect_error([] { Use("And").in(indices({1})).in(indices({1})).result(); }, {"And: ", "INT64"});
  expect_error([&] { Use("Less").in(a).in(b).result(); }, {"Less: ", "BOOL"});
}

TEST(Operators, CastAndItsKin) {
  const Array x = floats({3}, {1.7, -1.7, 0});
  expect_integers(Use("Cast").set("to", int64_t{TensorProto::INT32}).in(x).result(),
                  TensorProto::INT32, {3}, {1, -1, 0});
  expect_integers(Use("CastLike").in(x).in(bools({1}, {1})).result(), TensorProto::BOOL, {3},
                  {1, 1, 0});
  expect_integers(
      Use("BitCast").set("to", int64_t{TensorProto::INT32}).in(floats({1}, {1})).result(),
      TensorProto::INT32, {1}, {0x3f800000});
  expect_error([&] { Use("Cast").in(x).result(); }, {"Cast: ", "to is missing"});
  expect_error([&] { Use("Cast").set("to", int64_t{TensorProto::FLOAT8E5M2}).in(x).result(); },
               {"Cast: ", "FLOAT8E5M2"});
  expect_error([&] { Use("Cast").set("to", kMax).in(x).result(); }, {"Cast: "});
  expect_error([&] { Use("BitCast").set("to", int64_t{TensorProto::INT8}).in(x).result(); },
               {"BitCast: ", "another size"});
}

TEST(Operators, IdentityAndDropoutPassValuesOn) {
  const Array x = floats({2}, {1, 2});
  expect_array(Use("Identity").in(x).result(), {2}, {1, 2});
  const auto both = Use("Dropout", 13).outputs(2).in(x).run();
  expect_array(both[0], {2}, {1, 2});
  expect_integers(both[1], TensorProto::BOOL, {2}, {1, 1});
  EXPECT_EQ(Use("Dropout", 7).outputs(2).in(x).run()[1].type(), TensorProto::FLOAT);
  expect_error([&] { Use("Dropout").in(x).none().in(bools({}, {1})).result(); },
               {"Dropout: ", "training"});
  expect_array(Use("Dropout").in(x).in(floats({}, {0})).in(bools({}, {1})).result(), {2}, {1, 2});
}

TEST(Operators, ConstantsFromAttributes) {
  expect_array(Use("Constant").set("value", floats({2}, {1, 2})).result(), {2}, {1, 2});
  expect_array(Use("Constant").set("value_float", 1.5).result(), {}, {1.5});
  expect_integers(Use("Constant").set("value_int", kMin).result(), TensorProto::INT64, {}, {kMin});
  expect_integers(Use("Constant").set("value_ints", std::vector<int64_t>{1, 2}).result(),
                  TensorProto::INT64, {2}, {1, 2});
  expect_array(Use("Constant").set_floats("value_floats", {1, 2}).result(), {2}, {1, 2});
  expect_error([] { Use("Constant").result(); }, {"Constant: ", "none of value"});
  expect_error([] { Use("RandomNormal").result(); }, {"RandomNormal: ", "random"});
  expect_error([] { Use("Bernoulli").in(floats({1}, {1})).result(); }, {"Bernoulli: ", "random"});
}

TEST(Operators, ConstantsFromShapes) {
  const Array x = floats({2, 3}, std::vector<double>(6));
  expect_integers(Use("Shape").in(x).result(), TensorProto::INT64, {2}, {2, 3});
  expect_integers(Use("Shape", 15).set("start", int64_t{-1}).in(x).result(), TensorProto::INT64,
                  {1}, {3});
  expect_integers(Use("Shape", 15).set("end", int64_t{-1}).in(x).result(), TensorProto::INT64, {1},
                  {2});
  expect_integers(Use("Shape", 15).set("start", kMin).set("end", kMax).in(x).result(),
                  TensorProto::INT64, {2}, {2, 3});
  expect_integers(Use("Size").in(x).result(), TensorProto::INT64, {}, {6});
  // The shape of values that are not known is; that of a bound is not.
  EXPECT_TRUE(Use("Shape").unknown(TensorProto::FLOAT, {4}).inferred()[0].constant);
  EXPECT_FALSE(Use("Shape").unknown(TensorProto::FLOAT, {4}, true).inferred()[0].constant);
  expect_array(Use("ConstantOfShape").in(indices({2, 0})).result(), {2, 0}, {});
  expect_integers(Use("ConstantOfShape")
                      .set("value", integers({1}, {7}, TensorProto::INT32))
                      .in(indices({2}))
                      .result(),
                  TensorProto::INT32, {2}, {7, 7});
  expect_array(Use("ConstantOfShape").in(Array::of_indices({})).result(), {}, {0});
  expect_error([] { Use("ConstantOfShape").in(indices({kMax})).result(); },
               {"ConstantOfShape: ", "elements are supported"});
  expect_error(
      [] {
        Use("ConstantOfShape").in(indices({kMax, kMax})).result();
      },
      {"ConstantOfShape: ", "64 bits"});
  expect_error([] { Use("ConstantOfShape").in(indices({-1})).result(); },
               {"ConstantOfShape: ", "negative"});
  expect_error([] { Use("ConstantOfShape").unknown(TensorProto::INT64, {2}).result(); },
               {"ConstantOfShape: ", "'x0'", "fixed shapes"});
}

TEST(Operators, RangesAndUnits) {
  const auto scalar = [](int64_t value) { return integers({}, {value}); };
  expect_integers(Use("Range").in(scalar(10)).in(scalar(4)).in(scalar(-2)).result(),
                  TensorProto::INT64, {3}, {10, 8, 6});
  expect_integers(Use("Range").in(scalar(1)).in(scalar(1)).in(scalar(1)).result(),
                  TensorProto::INT64, {0}, {});
  expect_array(Use("Range").in(floats({}, {1})).in(floats({}, {2})).in(floats({}, {0.4})).result(),
               {3}, {1, 1.4, 1.8});
  expect_error([&] { Use("Range").in(scalar(0)).in(scalar(1)).in(scalar(0)).result(); },
               {"Range: ", "delta is 0"});
  expect_error([&] { Use("Range").in(scalar(kMin)).in(scalar(kMax)).in(scalar(1)).result(); },
               {"Range: ", "too many"});
  expect_error(
      [&] { Use("Range").in(floats({}, {0})).in(floats({}, {kNan})).in(floats({}, {1})).result(); },
      {"Range: ", "too many"});
  const Array x = integers({2, 3}, std::vector<int64_t>(6), TensorProto::INT32);
  expect_integers(Use("EyeLike").in(x).result(), TensorProto::INT32, {2, 3}, {1, 0, 0, 0, 1, 0});
  expect_array(
      Use("EyeLike").set("dtype", int64_t{TensorProto::FLOAT}).set("k", int64_t{1}).in(x).result(),
      {2, 3}, {0, 1, 0, 0, 0, 1});
  expect_integers(Use("EyeLike").set("k", kMax).in(x).result(), TensorProto::INT32, {2, 3},
                  {0, 0, 0, 0, 0, 0});
}

TEST(Operators, WhatFollowsFromABoundIsOne) {
  const Operand sum = Use("Neg").unknown(TensorProto::FLOAT, {4}, true).inferred()[0];
  EXPECT_TRUE(sum.is_bound);
  EXPECT_EQ(sum.shape, (Shape{4}));
  EXPECT_FALSE(Use("Neg").unknown(TensorProto::FLOAT, {4}).inferred()[0].is_bound);
}

TEST(Operators, TypesThatArraysLackAreRefused) {
  expect_error([] { Use("Identity").unknown(TensorProto::STRING, {1}).inferred(); },
               {"Identity: ", "STRING"});
}

TEST(Operators, TableKnowsBothNamesOfTheDomain) {
  const OperatorTable& table = OperatorTable::instance();
  EXPECT_NE(table.find("", "Add"), nullptr);
  EXPECT_EQ(table.find("ai.onnx", "Add"), table.find("", "Add"));
  EXPECT_EQ(table.find("com.example", "Add"), nullptr);
  EXPECT_THAT(table.names(), testing::Contains("Gather"));
}

}  // namespace
}  // namespace crema::onnx
