#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;
using testing::UnorderedElementsAre;

std::string mvn(const std::string& settings) {
  return text("layer { type: 'MVN' mvn_param { ", settings, " } }");
}

LayerCase images(const std::string& settings, const Shape& shape = {2, 3, 5, 4}) {
  return {.layer = mvn(settings), .bottoms = {uniform(shape, -2, 3)}};
}

const auto kBoth = UnorderedElementsAre("reference contiguous", "native contiguous");
const char* const kSettings[] = {"",
                                 "across_channels: true",
                                 "normalize_variance: false",
                                 "normalize_variance: false across_channels: true",
                                 "eps: 0.5",
                                 "eps: 0.5 across_channels: true",
                                 "eps: 0"};

TEST(MVN, AChannelOfASampleIsAGroup) {
  const std::vector<double> x = {1, 3, -2, -6, 5, 5, 0, 8};
  const auto check = [&](const std::string& settings, const std::vector<double>& y) {
    for (const char* engine : {"reference", "native"}) {
      LayerRun run({.layer = mvn(settings), .bottoms = {given({2, 2, 2}, x)}}, {.engine = engine});
      run.forward();
      EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6), y)) << engine << " " << settings;
    }
  };
  check("", {-1, 1, 1, -1, 0, 0, -1, 1});
  check("normalize_variance: false", {-1, 1, 2, -2, 0, 0, -4, 4});
  check("eps: 1", {-0.5, 0.5, 2 / 3.0, -2 / 3.0, 0, 0, -0.8, 0.8});
  check("normalize_variance: false across_channels: true", {2, 4, -1, -5, 0.5, 0.5, -4.5, 3.5});
  check("eps: 0", {-1, 1, 1, -1, 0, 0, -1, 1});
}

TEST(MVN, Gradients) {
  for (const char* settings : kSettings) {
    check_gradients(images(settings));
    check_gradients(images(settings, {1, 2, 7}));
    check_gradients(images(settings, {3, 5}), {.tolerance = 1e-5, .bottoms = {}});
  }
}

void check_shapes() {
  for (const char* settings : kSettings) {
    for (const Shape& shape :
         {Shape{2, 3, 5, 4}, Shape{1, 3, 6, 6}, Shape{3, 7, 1, 9}, Shape{2, 2, 2, 3, 3}}) {
      EXPECT_THAT(check_engines(images(settings, shape)), kBoth) << settings;
    }
  }
  EXPECT_THAT(check_engines(images("across_channels: true", {4, 9})), kBoth);
  EXPECT_THAT(check_engines(images("normalize_variance: false", {5})), kBoth);
}

TEST(MVN, Engines) { check_shapes(); }

TEST(MVN, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

// Enough for several threads.
TEST(MVN, EnginesOnLargeTensors) {
  for (const char* settings : {"", "across_channels: true", "normalize_variance: false"}) {
    for (const Shape& shape : {Shape{4, 9, 60, 61}, Shape{1, 3, 200, 128}, Shape{1, 3, 99, 101}}) {
      check_engines(images(settings, shape));
    }
  }
}

// The mean of the squares less the square of the mean would lose all digits.
TEST(MVN, AVarianceFarSmallerThanTheMean) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(
        {.layer = mvn(""), .bottoms = {given({1, 1, 4}, {1000000, 1000001, 1000002, 1000003})}},
        {.engine = engine});
    run.forward();
    const double s = std::sqrt(1.25);
    EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-5), {-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s}))
        << engine;
  }
}

TEST(MVN, EqualValuesBecomeZero) {
  for (const char* settings : {"", "eps: 0", "across_channels: true"}) {
    for (const char* engine : {"reference", "native"}) {
      LayerRun run(
          {.layer = mvn(settings), .bottoms = {given({1, 1, 3, 3}, std::vector<double>(9, 0.1))}},
          {.engine = engine});
      run.forward();
      EXPECT_THAT(run.top(0), Each(DoubleNear(0, 1e-6))) << engine;
      run.backward();
      for (const double diff : run.bottom_diff(0)) EXPECT_TRUE(std::isfinite(diff)) << engine;
    }
  }
}

// The sum of nine equal numbers, divided by nine, is not that number.
TEST(MVN, EqualValuesBecomeZeroWhereTheirMeanIsRounded) {
  for (const char* settings : {"", "eps: 0", "eps: 0 across_channels: true"}) {
    LayerRun run({.layer = mvn(settings),
                  .bottoms = {given({1, 1, 3, 3}, std::vector<double>(9, 1234567.1))}},
                 {.dtype = DType::f64});
    run.forward();
    EXPECT_THAT(run.top(0), Each(0)) << settings;
    run.backward();
    for (const double diff : run.bottom_diff(0))
      EXPECT_LT(std::abs(diff), 2e9) << settings;  // eps is 1e-9
  }
}

TEST(MVN, RunsInPlace) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun scaled(images(""), {.engine = engine});
    EXPECT_EQ(scaled.kernel().in_place(), InPlace::overwrite);
    EXPECT_FALSE(scaled.kernel().backward_reads().bottom_data);
    EXPECT_TRUE(scaled.kernel().backward_reads().top_data);
    LayerRun centred(images("normalize_variance: false"), {.engine = engine});
    EXPECT_FALSE(centred.kernel().backward_reads().top_data);
  }
}

TEST(MVN, GroupsOfNoValues) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images("", {2, 3, 0, 2}), {.engine = engine});
    run.forward();
    run.backward();
    EXPECT_TRUE(run.top(0).empty());
  }
}

TEST(MVN, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images(""), {.engine = engine});
    run.forward();
    run.reshape({given({1, 3, 1, 2}, {1, 3, 5, 3, 2, 2})});
    run.forward();
    EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6), {-1, 1, 1, -1, 0, 0})) << engine;
  }
}

TEST(MVN, Mistakes) {
  expect_error([] { LayerRun{images("eps: -0.1")}; }, {"eps -0.1", "deviation"});
  expect_error([] { LayerRun{images("eps: nan")}; }, {"eps nan"});
  expect_error([] { LayerRun{images("eps: inf")}; }, {"eps inf"});
}

}  // namespace
}  // namespace crema::test
