// Values: the cases deformable_convolution* of tests/golden/torch, which torchvision computed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

constexpr const char* kFillers =
    " weight_filler { type: 'xavier' } bias_filler { type: 'gaussian' }";

std::string layer(const std::string& settings) {
  return text("layer { type: 'DeformableConvolution' deformable_convolution_param { ", settings,
              kFillers, " } }");
}

/// Offsets whose points lie between pixels, some of them outside of the map.
Input offsets(const Shape& shape) {
  Input input = uniform(shape);
  for (int64_t i = 0; i < shape.count(); ++i)
    input.values.push_back(static_cast<double>(i * 2654435761U % 23) / 4 - 2.6);
  return input;
}

struct DeformableCase {
  std::string settings;
  Shape x, offsets;
  Shape mask = {};
};

std::vector<DeformableCase> cases() {
  return {
      {"num_output: 3 kernel_size: 3 pad: 1", {2, 3, 5, 4}, {2, 18, 5, 4}},
      {"num_output: 3 kernel_size: 3 pad: 1", {2, 3, 5, 4}, {2, 18, 5, 4}, {2, 9, 5, 4}},
      {"num_output: 4 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2 dilation: "
       "1 "
       "dilation: 2 bias_term: false",
       {1, 2, 6, 5},
       {1, 12, 3, 5},
       {1, 6, 3, 5}},
      {"num_output: 4 kernel_size: 2 group: 2 deformable_group: 4",
       {2, 4, 4, 5},
       {2, 32, 3, 4},
       {2, 16, 3, 4}},
      {"num_output: 6 kernel_size: 2 group: 3 deformable_group: 2", {1, 6, 3, 4}, {1, 16, 2, 3}},
      {"num_output: 2 kernel_size: 1", {1, 3, 4, 3}, {1, 2, 4, 3}},
  };
}

LayerCase layer_case(const DeformableCase& c) {
  LayerCase made{.layer = layer(c.settings), .bottoms = {uniform(c.x), offsets(c.offsets)}};
  if (c.mask.rank() > 0) made.bottoms.push_back(uniform(c.mask, 0, 1));
  return made;
}

TEST(DeformableConvolution, Gradients) {
  for (const DeformableCase& c : cases()) {
    SCOPED_TRACE(c.settings);
    check_gradients(layer_case(c));
  }
}

TEST(DeformableConvolution, EveryEngine) {
  for (const DeformableCase& c : cases()) {
    SCOPED_TRACE(c.settings);
    for (const SimdLevel level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      SCOPED_TRACE(to_string(level));
      const SimdLimit limit(level);
      check_engines(layer_case(c));
    }
  }
}

/// The same as one large chunk, as several images a chunk and as several chunks an image.
TEST(DeformableConvolution, ChunksOfImagesAndOfPositions) {
  // 4 MiB are the columns of 728 positions of 160 channels and 9 taps.
  for (const Shape& x : {Shape{5, 160, 19, 20}, Shape{1, 160, 30, 41}}) {
    SCOPED_TRACE(x.str());
    const LayerCase c{
        .layer = layer("num_output: 8 kernel_size: 3 pad: 1 group: 2 deformable_group: 2"),
        .bottoms = {uniform(x), offsets({x[0], 36, x[2], x[3]}), uniform({x[0], 18, x[2], x[3]})}};
    check_engines(c, {.absolute = 1e-4, .relative = 1e-3});
  }
}

/// Tops, the diffs of bottoms and the gradients of parameters.
std::vector<std::vector<double>> results(const LayerCase& c, const RunOptions& options) {
  LayerRun run(c, options);
  run.forward();
  run.backward();
  std::vector<std::vector<double>> all = {run.top(0), run.bottom_diff(0)};
  for (int i = 0; i < run.num_params(); ++i) all.push_back(run.gradient(i));
  return all;
}

TEST(DeformableConvolution, WithoutOffsetsItIsAConvolution) {
  for (const std::string settings :
       {"num_output: 6 kernel_size: 3 pad: 1", "num_output: 6 kernel_size: 3 stride: 2 dilation: 2",
        "num_output: 6 kernel_h: 3 kernel_w: 2 pad_h: 2 pad_w: 1 stride_h: 1 stride_w: 2 group: 2",
        "num_output: 6 kernel_size: 1 bias_term: false"}) {
    SCOPED_TRACE(settings);
    const LayerCase plain{.layer = text("layer { type: 'Convolution' convolution_param { ",
                                        settings, kFillers, " } }"),
                          .bottoms = {uniform({2, 4, 7, 8})}};
    LayerRun sizes(plain);
    const Shape& top = sizes.top_blob(0).shape();
    const int64_t taps = sizes.layer().params()[0]->shape().count(2);
    LayerCase moved = plain;
    moved.layer = layer(settings);
    const Shape of_offsets{2, 2 * taps, top[2], top[3]};
    moved.bottoms.push_back(
        given(of_offsets, std::vector<double>(static_cast<size_t>(of_offsets.count()), 0)));
    const auto expected = results(plain, {.dtype = DType::f64});
    auto actual = results(moved, {.dtype = DType::f64});
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      expect_close(actual[i], expected[i], {1e-12, 1e-12}, text("result ", i));
  }
}

// With one output, a column's gradient is one product: what differs would be the order of the sums.
TEST(DeformableConvolution, GradientsDoNotDependOnThreads) {
  const auto results = [](int threads) {
    const ThreadScope scope(threads);
    LayerRun run({.layer = layer("num_output: 1 kernel_size: 3 pad: 1 deformable_group: 2"),
                  .bottoms = {uniform({2, 38, 17, 20}), offsets({2, 36, 17, 20}),
                              uniform({2, 18, 17, 20})}});
    run.forward();
    run.backward();
    return std::vector<std::vector<double>>{run.bottom_diff(0), run.bottom_diff(1),
                                            run.bottom_diff(2)};
  };
  const auto one = results(1);
  EXPECT_EQ(results(2), one);
  EXPECT_EQ(results(3), one);
  EXPECT_EQ(results(7), one);
}

TEST(DeformableConvolution, WholeOffsetsReadTheNeighbours) {
  // One tap that reads a row below and two columns to the right.
  LayerRun run({.layer = layer("num_output: 1 kernel_size: 1 bias_term: false"),
                .bottoms = {given({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}),
                            given({1, 2, 2, 3}, {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2})},
                .params = {{1}}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{6, 0, 0, 0, 0, 0}));
}

// Half a pixel beyond the border there is half of its value, a pixel beyond it nothing; far offsets
// and infinite ones read nothing, and NaN does not go unseen.
TEST(DeformableConvolution, OffsetsOutsideOfTheMap) {
  const double inf = std::numeric_limits<double>::infinity();
  LayerRun run({.layer = layer("num_output: 1 kernel_size: 1 bias_term: false"),
                .bottoms = {given({1, 1, 1, 6}, {8, 8, 8, 8, 8, 8}),
                            given({1, 2, 1, 6}, {-0.5, 1, -1, 1e30, -inf, std::nan(""),  //
                                                 0, 0, 0, 0, 0, 0})},
                .params = {{1}}});
  run.forward();
  EXPECT_EQ(std::vector<double>(run.top(0).begin(), run.top(0).begin() + 5),
            (std::vector<double>{4, 0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(run.top(0)[5]));
}

// What has no weight is not read.
TEST(DeformableConvolution, NeighboursWithoutWeightMayBeInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  LayerRun run(
      {.layer = layer("num_output: 1 kernel_size: 1 bias_term: false"),
       .bottoms = {given({1, 1, 1, 3}, {inf, 2, inf}), given({1, 2, 1, 3}, {0, 0, 0, 1, 0, -1})},
       .params = {{1}}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{2, 2, 2}));
}

TEST(DeformableConvolution, EmptyBatches) {
  LayerRun run({.layer = layer("num_output: 2 kernel_size: 1"),
                .bottoms = {uniform({0, 3, 4, 4}), uniform({0, 2, 4, 4})}});
  run.forward();
  run.backward();
  for (const double g : run.gradient(0)) EXPECT_EQ(g, 0);
}

TEST(DeformableConvolution, WrongSettings) {
  const auto refuses = [](const std::string& settings, const std::vector<Shape>& shapes,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(settings);
    LayerCase c{.layer = layer(settings)};
    for (const Shape& shape : shapes) c.bottoms.push_back(uniform(shape));
    expect_error([&] { LayerRun{c}; }, parts);
  };
  const std::string three = "num_output: 2 kernel_size: 3";
  refuses(three, {{1, 2, 5, 5}, {1, 9, 3, 3}},
          {"'bottom1' (1x9x3x3)", "1x18x3x3", "3 x 3 kernel", "offsets"});
  refuses(three, {{1, 2, 5, 5}, {1, 18, 5, 5}}, {"1x18x3x3", "3 x 3 positions"});
  refuses(three, {{2, 2, 5, 5}, {1, 18, 3, 3}}, {"2x18x3x3"});
  refuses(three, {{1, 2, 5, 5}, {1, 18, 3, 3}, {1, 18, 3, 3}}, {"'bottom2'", "1x9x3x3", "mask"});
  refuses(three + " deformable_group: 2", {{1, 3, 5, 5}, {1, 36, 3, 3}},
          {"3 channels", "deformable_group 2"});
  refuses(three + " deformable_group: 0", {{1, 2, 5, 5}, {1, 18, 3, 3}}, {"deformable_group is 0"});
  refuses(three + " group: 2", {{1, 3, 5, 5}, {1, 18, 3, 3}}, {"3 channels", "group 2"});
  refuses(three, {{1, 2, 2, 5}, {1, 18, 1, 3}}, {"kernel 3", "exceeds"});
  refuses(three, {{1, 2, 5}, {1, 18, 3}}, {"N, C, H, W", "1x2x5"});
  refuses("kernel_size: 3", {{1, 2, 5, 5}, {1, 18, 3, 3}}, {"num_output is 0"});
  refuses("num_output: 2", {{1, 2, 5, 5}, {1, 18, 3, 3}}, {"kernel_size"});
}

}  // namespace
}  // namespace crema::test
