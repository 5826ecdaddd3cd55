#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

LayerCase spp(const std::string& settings, const Shape& shape = {2, 3, 9, 9}) {
  return {.layer = text("layer { type: 'SPP' spp_param { ", settings, " } }"),
          .bottoms = {uniform(shape)}};
}

LayerCase counting(const std::string& settings, const Shape& shape) {
  LayerCase layer_case = spp(settings, shape);
  std::vector<double> values(static_cast<size_t>(shape.count()));
  std::iota(values.begin(), values.end(), 0);
  layer_case.bottoms = {given(shape, values)};
  return layer_case;
}

const auto kBoth = UnorderedElementsAre("reference contiguous", "native contiguous");

TEST(SPP, MaximaOfEachLevelOneBehindTheOther) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(counting("pyramid_height: 2", {2, 2, 4, 4}), {.engine = engine});
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 10}));
    EXPECT_THAT(run.top(0), ElementsAre(15, 31, 5, 7, 13, 15, 21, 23, 29, 31,  //
                                        47, 63, 37, 39, 45, 47, 53, 55, 61, 63))
        << engine;
    std::vector<double> diff(20, 0);
    diff[10] = 1, diff[15] = 2, diff[12] = 4;
    run.set_top_diff(0, diff);
    run.backward();
    std::vector<double> expected(64, 0);
    expected[47] = 3, expected[37] = 4;  // the last maximum is that of both levels
    EXPECT_EQ(run.bottom_diff(0), expected) << engine;
  }
}

TEST(SPP, AverageCountsPaddingAsPooling) {
  for (const char* engine : {"reference", "native"}) {
    LayerCase ones = spp("pyramid_height: 2 pool: AVE");
    ones.bottoms = {given({1, 1, 3, 3}, std::vector<double>(9, 1.0))};
    LayerRun run(ones, {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0),
                testing::Pointwise(testing::DoubleNear(1e-6), {1.0, 0.25, 0.5, 0.5, 1.0}))
        << engine;
  }
}

TEST(SPP, Shapes) {
  const auto shape = [](const std::string& settings, const Shape& bottom) {
    return LayerRun(spp(settings, bottom)).top_blob(0).shape();
  };
  EXPECT_EQ(shape("pyramid_height: 1", {2, 3, 5, 7}), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(shape("pyramid_height: 3", {2, 3, 9, 9}), (Shape{2, 3 * 21}));
  EXPECT_EQ(shape("pyramid_height: 4", {1, 2, 16, 24}), (Shape{1, 2 * 85}));
}

TEST(SPP, Gradients) {
  for (const char* method : {"MAX", "AVE"}) {
    check_gradients(spp(text("pyramid_height: 3 pool: ", method)));
    check_gradients(spp(text("pyramid_height: 2 pool: ", method), {1, 2, 5, 8}));
    check_gradients(spp(text("pyramid_height: 1 pool: ", method), {2, 2, 3, 4}));
  }
  LayerCase stochastic = spp("pyramid_height: 2 pool: STOCHASTIC", {1, 2, 4, 6});
  stochastic.bottoms[0].low = 0.1;
  check_gradients(stochastic);
  stochastic.phase = Phase::test;
  check_gradients(stochastic);
}

void check_shapes() {
  for (const char* method : {"MAX", "AVE"}) {
    EXPECT_THAT(check_engines(spp(text("pyramid_height: 3 pool: ", method))), kBoth);
    EXPECT_THAT(check_engines(spp(text("pyramid_height: 4 pool: ", method), {1, 5, 40, 29})),
                kBoth);
    EXPECT_THAT(check_engines(spp(text("pyramid_height: 1 pool: ", method), {3, 2, 1, 6})), kBoth);
  }
}

TEST(SPP, Engines) { check_shapes(); }

TEST(SPP, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

TEST(SPP, StochasticRunsInTheReference) {
  LayerCase c = spp("pyramid_height: 2 pool: STOCHASTIC", {1, 2, 4, 4});
  c.bottoms[0].low = 0;
  EXPECT_THAT(check_engines(c, {}, {"native"}), ElementsAre("reference contiguous"));
}

TEST(SPP, DrawsAnewForEachOutput) {
  LayerCase c = spp("pyramid_height: 1 pool: STOCHASTIC");
  std::vector<double> values;
  for (int i = 0; i < 4000; ++i) values.insert(values.end(), {1, 3});
  c.bottoms = {given({4, 1000, 1, 2}, values)};
  LayerRun run(c);
  run.forward();
  EXPECT_NEAR(std::count(run.top(0).begin(), run.top(0).end(), 3), 3000, 120);
}

TEST(SPP, BackwardNeedsNoActivations) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(spp("pyramid_height: 2"), {.engine = engine});
    EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
  }
}

TEST(SPP, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(spp("pyramid_height: 2"), {.engine = engine});
    run.forward();
    run.reshape({given({1, 1, 2, 3}, {1, 2, 3, 4, 9, 5})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(9, 1, 3, 4, 9)) << engine;
    expect_error([&] { run.reshape({uniform({1, 1, 1, 4})}); }, {"1x4", "2x2", "level 1"});
  }
}

TEST(SPP, Mistakes) {
  const auto mistake = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun{c}; }, words);
  };
  mistake(spp(""), {"pyramid_height", "not set"});
  mistake(spp("pyramid_height: 0"), {"pyramid_height is 0"});
  mistake(spp("pyramid_height: 3", {1, 1, 5, 9}),
          {"5x9", "4x4 bins", "level 2", "pyramid_height to 2"});
  mistake(spp("pyramid_height: 4000000000", {1, 1, 9, 9}), {"9x9", "pyramid_height"});
  mistake(spp("pyramid_height: 2 pool: STOCHASTIC", {1, 1, 4, 5}),
          {"STOCHASTIC", "4x5", "level 1", "multiples of 2"});
  mistake(spp("pyramid_height: 2", {2, 8}), {"images", "2x8"});
  mistake(spp("pyramid_height: 2", {2, 3, 0, 4}), {"images", "2x3x0x4"});
}

}  // namespace
}  // namespace crema::test
