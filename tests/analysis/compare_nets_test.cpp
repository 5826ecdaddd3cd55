// Two nets on the same inputs: what is equal, what differs first, and what cannot be compared.
#include "analysis/compare_nets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/net_test.hpp"

namespace crema::test {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string input(const std::string& name, const std::string& dims) {
  return text("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { shape { ",
              dims, " } } } ");
}
std::string power(const std::string& bottom, const std::string& top, double scale,
                  double shift = 0) {
  return text("layer { name: 'make_", top, "' type: 'Power' bottom: '", bottom, "' top: '", top,
              "' power_param { scale: ", scale, " shift: ", shift, " } } ");
}

class CompareNets : public ::testing::Test {
 protected:
  Net net(const std::string& layers) {
    return Net(net_param(layers), context_,
               {.phase = Phase::test, .fuse = false, .keep_all = true});
  }

  Context context_{{.threads = 1, .tune = false}};
};

void set(Tensor& tensor, const std::vector<float>& values) {
  ASSERT_EQ(tensor.count(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.overwrite<float>());
}

Tensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor(shape);
  set(tensor, values);
  return tensor;
}

// Two boxes of one class: which is the first one follows from the last bits of their scores.
TEST_F(CompareNets, DetectionsOfEqualScoresMayChangePlaces) {
  Net boxes = net(input("offsets", "dim: 1 dim: 8") + input("scores", "dim: 1 dim: 4") +
                  input("priors", "dim: 1 dim: 2 dim: 8") +
                  "layer { name: 'out' type: 'DetectionOutput' bottom: 'offsets' bottom: 'scores' "
                  "bottom: 'priors' top: 'out' detection_output_param { num_classes: 2 "
                  "confidence_threshold: 0.1 } }");
  set(boxes.input("offsets"), std::vector<float>(8, 0));
  set(boxes.input("priors"), {0.1F, 0.1F, 0.2F, 0.2F, 0.6F, 0.6F, 0.9F, 0.9F,  //
                              0.1F, 0.1F, 0.2F, 0.2F, 0.1F, 0.1F, 0.2F, 0.2F});
  const auto exchanged = [&](float second) {
    set(boxes.input("scores"), {0.1F, 0.9F, 0.1F, second});
    boxes.forward();
    const Tensor rows = boxes.output("out");
    EXPECT_EQ(rows.shape(), (Shape{1, 1, 2, 7}));
    std::vector<float> values;
    for (int64_t i = 0; i < 14; ++i) values.push_back(static_cast<float>(rows.at((i + 7) % 14)));
    return difference_of_blob(boxes, "out", tensor_of(rows.shape(), values));
  };
  EXPECT_LT(exchanged(0.899999F).absolute, 1e-5);
  EXPECT_GT(exchanged(0.899F).absolute, 0.3);
  // A box that is another one is seen.
  Tensor other(boxes.output("out").shape());
  other.copy_from(boxes.output("out"));
  other.overwrite<float>()[3] += 0.25F;
  EXPECT_NEAR(difference_of_blob(boxes, "out", other).absolute, 0.25, 1e-6);
}

TEST_F(CompareNets, TheSameNetGivesTheSame) {
  const std::string layers = input("x", "dim: 2 dim: 3") + power("x", "a", 2) + power("a", "y", 3);
  Net a = net(layers), b = net(layers);
  fill_input(a, "x", 5);
  const NetComparison comparison = compare_nets(a, b, kTolerance);
  EXPECT_TRUE(comparison.same(0));
  EXPECT_EQ(comparison.first, -1);
  EXPECT_EQ(comparison.values.size(), 2U);
  ASSERT_EQ(comparison.outputs.size(), 1U);
  EXPECT_EQ(comparison.outputs[0].name, "y");
  EXPECT_EQ(comparison.outputs[0].layer, "make_y");
  EXPECT_EQ(comparison.relative(), 0);
}

TEST_F(CompareNets, TheFirstValueThatDiffersIsNamed) {
  const std::string front = input("x", "dim: 4") + power("x", "a", 2);
  Net a = net(front + power("a", "b", 1) + power("b", "y", 1));
  Net b = net(front + power("a", "b", 1, 0.5) + power("b", "y", 1));
  set(a.input("x"), {1, -2, 0.5, 0});
  const NetComparison comparison = compare_nets(a, b, kTolerance);
  EXPECT_FALSE(comparison.same(kTolerance));
  ASSERT_EQ(comparison.first, 1);
  const ValueDifference& first = comparison.values[1];
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.layer, "make_b");
  EXPECT_FLOAT_EQ(static_cast<float>(first.absolute), 0.5F);
  EXPECT_FLOAT_EQ(static_cast<float>(first.relative), 0.125F) << "by the greatest, 4";
  EXPECT_TRUE(first.within(0.126));
  EXPECT_FALSE(first.within(0.124));
}

TEST_F(CompareNets, OtherNamesAreComparedInTheirOrder) {
  Net a =
      net(input("p", "dim: 2") + input("q", "dim: 3") + power("p", "u", 2) + power("q", "v", 3));
  Net b = net(input("one", "dim: 2") + input("two", "dim: 3") + power("one", "first", 2) +
              power("two", "second", 3));
  set(a.input("p"), {1, 2});
  set(a.input("q"), {3, 4, 5});
  const NetComparison comparison = compare_nets(a, b, kTolerance);
  EXPECT_TRUE(comparison.same(0));
  ASSERT_EQ(comparison.outputs.size(), 2U);
  EXPECT_EQ(comparison.outputs[1].name, "v");
  EXPECT_EQ(comparison.outputs[1].other, "second");
  EXPECT_EQ(b.input("two").at(2), 5);
}

TEST_F(CompareNets, InputsOfTheSameNamesAreFoundInAnyOrder) {
  Net a =
      net(input("p", "dim: 2") + input("q", "dim: 3") + power("p", "u", 2) + power("q", "v", 3));
  Net b =
      net(input("q", "dim: 3") + input("p", "dim: 2") + power("p", "u", 2) + power("q", "v", 3));
  set(a.input("p"), {1, 2});
  set(a.input("q"), {3, 4, 5});
  EXPECT_TRUE(compare_nets(a, b, kTolerance).same(0));
}

TEST_F(CompareNets, OutputsOfOneNetAlone) {
  Net a = net(input("x", "dim: 2") + power("x", "u", 2) + power("x", "v", 2));
  Net b = net(input("x", "dim: 2") + power("x", "u", 2));
  const NetComparison comparison = compare_nets(a, b, kTolerance);
  EXPECT_FALSE(comparison.same(kTolerance));
  EXPECT_EQ(comparison.only_a, std::vector<std::string>{"v"});
  EXPECT_TRUE(comparison.only_b.empty());
}

TEST_F(CompareNets, InputsThatDifferInNumberAreAnError) {
  Net a = net(input("x", "dim: 2") + power("x", "u", 2));
  Net b = net(input("x", "dim: 2") + input("y", "dim: 2") + power("x", "u", 2));
  try {
    compare_nets(a, b, kTolerance);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 1 inputs (x) and the second 2 (x, y)"));
  }
}

TEST_F(CompareNets, AnOutputOfNaNAloneIsNotTheSame) {
  const std::string layers = input("x", "dim: 2") + power("x", "y", 2);
  Net a = net(layers), b = net(layers);
  set(a.input("x"), {kNan, kNan});
  const NetComparison comparison = compare_nets(a, b, kTolerance);
  EXPECT_FALSE(comparison.same(1));
  EXPECT_EQ(comparison.outputs[0].problem, "only NaN");
  EXPECT_EQ(comparison.first, 0);
}

TEST_F(CompareNets, InputsThatNobodyReadsAreNoOutputs) {
  Net a = net(input("x", "dim: 2") + input("unread", "dim: 2") + power("x", "y", 2));
  EXPECT_THAT(a.outputs(), ::testing::Contains("unread"));
  EXPECT_EQ(computed_outputs(a), std::vector<std::string>{"y"});
}

TEST_F(CompareNets, InputsFitWhatReadsThem) {
  Net net_of_words =
      net(input("words", "dim: 50") +
          "layer { name: 'e' type: 'Embed' bottom: 'words' top: 'e' embed_param { input_dim: 4 "
          "num_output: 2 } }");
  fill_input(net_of_words, "words", 3);
  double greatest = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const double index = net_of_words.input("words").at(i);
    EXPECT_EQ(index, std::floor(index));
    EXPECT_GE(index, 0);
    greatest = std::max(greatest, index);
  }
  EXPECT_EQ(greatest, 3);
}

TEST(DifferenceOf, ShapesThatDifferAreAProblem) {
  const Tensor a = tensor_of(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = tensor_of(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const ValueDifference difference = difference_of("y", a, b);
  EXPECT_EQ(difference.problem, text(a.shape().str(), " and ", b.shape().str()));
  EXPECT_FALSE(difference.within(1));
}

TEST(DifferenceOf, NaNAndInfinity) {
  const Shape shape{3};
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor numbers = tensor_of(shape, {1, 2, 3}), some = tensor_of(shape, {1, kNan, 3});
  const Tensor none = tensor_of(shape, {kNan, kNan, kNan});
  EXPECT_TRUE(difference_of("y", some, some).within(0)) << "NaN at the same place of both";
  EXPECT_FALSE(difference_of("y", numbers, some).within(1e30));
  EXPECT_FALSE(difference_of("y", some, numbers).within(1e30));
  EXPECT_EQ(difference_of("y", none, none).problem, "only NaN");
  EXPECT_FALSE(difference_of("y", none, numbers).within(1e30));
  const Tensor endless = tensor_of(shape, {1, infinity, 3});
  EXPECT_TRUE(difference_of("y", endless, endless).within(0));
  EXPECT_FALSE(difference_of("y", endless, numbers).within(1e30));
  EXPECT_FALSE(difference_of("y", endless, tensor_of(shape, {1, -infinity, 3})).within(1e30));
}

TEST(DifferenceOf, NothingIsTheSameAsNothing) {
  EXPECT_TRUE(difference_of("y", tensor_of(Shape{0, 2}, {}), tensor_of(Shape{0, 2}, {})).within(0));
}

}  // namespace
}  // namespace crema::test
