#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

std::string eltwise(const std::string& settings) {
  return text("layer { type: 'Eltwise' eltwise_param { ", settings, " } }");
}

LayerCase three(const std::string& settings, const Shape& shape = {2, 3, 5, 4}) {
  return {.layer = eltwise(settings), .bottoms = {uniform(shape), uniform(shape), uniform(shape)}};
}

LayerCase given_pair(const std::string& settings) {
  return {.layer = eltwise(settings),
          .bottoms = {given({4}, {1, -2, 3, 0}), given({4}, {1, 5, -1, 2})}};
}

TEST(Eltwise, Sum) {
  LayerRun run(given_pair(""));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(2, 3, 2, 2));
}

TEST(Eltwise, SumWithCoefficients) {
  LayerRun run(given_pair("operation: SUM coeff: 2 coeff: -1"));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, -9, 7, -2));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(-1, -2, -3, -4));
}

TEST(Eltwise, Product) {
  LayerRun run(given_pair("operation: PROD"));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, -10, -3, 0));
  run.set_top_diff(0, {1, 1, 1, 1});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 5, -1, 2));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(1, -2, 3, 0));
}

// Of equal values the first is the maximum.
TEST(Eltwise, Maximum) {
  LayerRun run(given_pair("operation: MAX"));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 5, 3, 2));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 0, 3, 0));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(0, 2, 0, 4));
}

TEST(Eltwise, MaximumDoesNotHideNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LayerRun run({.layer = eltwise("operation: MAX"),
                .bottoms = {given({2}, {nan, 1}), given({2}, {1, nan})}});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
  EXPECT_TRUE(std::isnan(run.top(0)[1]));
}

// In whole vectors and behind them: of equal values the first bottom's counts, and NaN of any.
TEST(Eltwise, MaximumAtEveryLevel) {
  constexpr size_t kCount = 39;
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    std::vector<double> a(kCount), b(kCount), dy(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      a[i] = i % 5 == 4 ? std::nan("") : static_cast<double>(i % 3);
      b[i] = i % 7 == 6 ? std::nan("") : 1;
      dy[i] = static_cast<double>(i + 1);
    }
    LayerRun run(
        {.layer = eltwise("operation: MAX"), .bottoms = {given({kCount}, a), given({kCount}, b)}});
    run.forward();
    run.set_top_diff(0, dy);
    run.backward();
    for (size_t i = 0; i < kCount; ++i) {
      const bool second = std::isnan(b[i]) || b[i] > a[i];
      if (std::isnan(a[i]) || std::isnan(b[i])) {
        EXPECT_TRUE(std::isnan(run.top(0)[i])) << i;
      } else {
        EXPECT_EQ(run.top(0)[i], second ? b[i] : a[i]) << i;
      }
      EXPECT_EQ(run.bottom_diff(0)[i], second ? 0 : dy[i]) << i;
      EXPECT_EQ(run.bottom_diff(1)[i], second ? dy[i] : 0) << i;
    }
  }
}

TEST(Eltwise, Gradients) {
  for (const char* settings :
       {"", "coeff: 1 coeff: -0.5 coeff: 2", "operation: MAX", "operation: PROD"}) {
    check_gradients(three(settings));
  }
  LayerCase away_from_zero = three("operation: PROD stable_prod_grad: false");
  for (Input& bottom : away_from_zero.bottoms) bottom.low = 0.5;
  check_gradients(away_from_zero);
}

// Bottoms that get no gradient are left alone.
TEST(Eltwise, PropagatesOnlyWhereAsked) {
  LayerRun run(given_pair("coeff: 2 coeff: -1"));
  run.forward();
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward({false, true});
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(-1, -2, -3, -4));
}

TEST(Eltwise, ReadsOnlyWhatTheOperationNeeds) {
  EXPECT_FALSE(LayerRun(three("")).kernel().backward_reads().bottom_data);
  EXPECT_FALSE(LayerRun(three("operation: MAX")).kernel().backward_reads().bottom_data);
  EXPECT_FALSE(LayerRun(three("")).kernel().backward_reads().top_data);
  EXPECT_TRUE(LayerRun(three("operation: PROD")).kernel().backward_reads().bottom_data);
}

// Only the values that the wanted gradients come from are kept.
TEST(Eltwise, ProductReadsOneFactorForTheGradientOfOne) {
  for (const bool stable : {true, false}) {
    const LayerCase c =
        given_pair(text("operation: PROD stable_prod_grad: ", stable ? "true" : "false"));
    for (const size_t wanted : {size_t{0}, size_t{1}}) {
      LayerRun run(c);
      const std::vector<bool> propagate = run.want_only(wanted);
      const BackwardReads reads = run.kernel().backward_reads();
      EXPECT_EQ(reads.bottom_data[wanted], !stable);
      EXPECT_EQ(reads.bottom_data[1 - wanted], stable);
      EXPECT_EQ(reads.top_data[0], !stable);
      // What is not read is poisoned by the run.
      run.forward();
      run.set_top_diff(0, {1, 1, 1, 1});
      run.backward(propagate);
      LayerRun both(c);
      both.forward();
      both.set_top_diff(0, {1, 1, 1, 1});
      both.backward();
      // Where it divides 0 by 0 it is NaN.
      EXPECT_THAT(run.bottom_diff(static_cast<int>(wanted)),
                  testing::Pointwise(testing::NanSensitiveDoubleEq(),
                                     both.bottom_diff(static_cast<int>(wanted))));
    }
  }
}

TEST(Eltwise, AppliesAReLUBehindIt) {
  LayerCase c = three("coeff: 1 coeff: -0.5 coeff: 2", {2, 19, 30, 7});
  for (const char* relu : {R"(layer { type: "ReLU" })",
                           R"(layer { type: "ReLU" relu_param { negative_slope: 0.3 } })"}) {
    c.tail = {relu};
    check_engines(c);
  }
  c.tail = {"layer { type: 'ReLU' }", "layer { type: 'ReLU' }"};
  expect_error([&] { LayerRun run(c); }, {"does not accept"});
  c.tail = {"layer { type: 'Sigmoid' }"};
  expect_error([&] { LayerRun run(c); }, {"is no tail step"});
  c.tail = {R"(layer { type: "ReLU" relu_param { negative_slope: -1 } })"};
  expect_error([&] { LayerRun run(c); }, {"is no tail step"});
  LayerCase maximum = three("operation: MAX");
  maximum.tail = {R"(layer { type: "ReLU" })"};
  expect_error([&] { LayerRun run(maximum); }, {"does not accept"});
}

TEST(Eltwise, EveryFormat) {
  for (const char* settings :
       {"", "coeff: 1 coeff: -0.5 coeff: 2", "operation: MAX", "operation: PROD"}) {
    // Odd sizes: blocked formats are padded, and vectors have a rest.
    const auto ran = check_engines(three(settings, {2, 19, 30, 7}));
    EXPECT_THAT(ran, IsSupersetOf({"reference contiguous", "reference channels_last",
                                   "reference blocked8", "reference blocked16"}));
    check_engines(three(settings, {7}));
    check_engines(three(settings, {0, 3}));
  }
  // A quotient has no padding that stays 0.
  EXPECT_THAT(check_engines(three("operation: PROD stable_prod_grad: false", {2, 19, 3, 7})),
              testing::UnorderedElementsAre("reference contiguous", "reference channels_last"));
}

// Few bottoms have code of their own.
TEST(Eltwise, AnyNumberOfBottomsAtEveryLevel) {
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    for (const char* settings : {"", "operation: MAX", "operation: PROD"}) {
      for (size_t bottoms = 2; bottoms <= 5; ++bottoms) {
        SCOPED_TRACE(text(to_string(level), " ", settings, " of ", bottoms));
        check_engines({.layer = eltwise(settings),
                       .bottoms = std::vector<Input>(bottoms, uniform({1, 4, 7, 39}))});
      }
    }
  }
}

TEST(Eltwise, MaximumIgnoresCoefficientsAsPublished) {
  LayerRun run(given_pair("operation: MAX coeff: 2 coeff: -1")),
      plain(given_pair("operation: MAX"));
  run.forward();
  plain.forward();
  EXPECT_EQ(run.top(0), plain.top(0));
}

TEST(Eltwise, Errors) {
  expect_error(
      [] {
        LayerRun run({.layer = R"(layer { type: "Eltwise" bottom: "left" bottom: "right" })",
                      .bottoms = {uniform({2, 3}), uniform({2, 4})}});
      },
      {"'left' is 2x3", "'right' is 2x4"});
  expect_error([] { LayerRun run(three("coeff: 1")); }, {"1 coeff", "3 bottoms"});
  expect_error([] { LayerRun run(three("operation: PROD coeff: 1 coeff: 1 coeff: 1")); },
               {"coeff", "SUM"});
}

}  // namespace
}  // namespace crema::test
