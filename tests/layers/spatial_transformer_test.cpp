// Values: the cases spatial_transformer* of tests/golden/torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Each;

std::string layer(const std::string& settings) {
  return text("layer { type: 'SpatialTransformer' st_param { ", settings, " } }");
}
// No point may be a pixel's, where the derivative jumps.
const Input kMaps = given({2, 6}, {0.8137, 0.3119, 0.1093, -0.2071, 1.1213, -0.1531, 1.3067,
                                   -0.4129, 0.2011, 0.5077, 0.6173, 0.3037});

TEST(SpatialTransformer, GradientsAndEngines) {
  for (const std::string settings :
       {"", "align_corners: true", "align_corners: false", "output_H: 3 output_W: 7",
        "output_H: 1 output_W: 1 align_corners: true", "padding_mode: BORDER",
        "padding_mode: BORDER align_corners: true", "padding_mode: BORDER align_corners: false",
        "padding_mode: BORDER output_H: 9 output_W: 11"}) {
    SCOPED_TRACE(settings);
    const LayerCase c{.layer = layer(settings), .bottoms = {uniform({2, 3, 5, 4}), kMaps}};
    check_gradients(c);
    check_engines(c);
  }
  const LayerCase fixed{
      .layer = layer("theta_1_1: 0.7013 theta_2_1: 0.1071 theta_2_2: -0.9127"),
      .bottoms = {uniform({2, 2, 4, 6}),
                  given({2, 3, 1}, {0.2317, 0.1129, -0.2051, 0.3079, -0.1373, 0.2719})}};
  check_gradients(fixed);
  check_engines(fixed);
  check_engines({.layer = layer(""), .bottoms = {uniform({2, 19, 23, 17}), kMaps}});
}

// Blocks have 1, 4, 8 or 16 channels, and 64 points at a time.
TEST(SpatialTransformer, ChannelsThatFillNoBlock) {
  for (const int64_t channels : {1, 2, 5, 8, 11, 33}) {
    for (const int64_t samples : {1, 8}) {
      std::vector<double> maps;
      for (int64_t i = 0; i < samples; ++i)
        maps.insert(maps.end(), kMaps.values.begin(), kMaps.values.begin() + 6);
      const LayerCase c{.layer = layer("output_H: 9 output_W: 13"),
                        .bottoms = {uniform({samples, channels, 6, 7}), given({samples, 6}, maps)}};
      for (const SimdLevel level :
           {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
        SCOPED_TRACE(text(channels, " ", samples, " ", to_string(level)));
        const SimdLimit limit(level);
        check_engines(c);
        if (samples == 1) check_gradients(c);
      }
    }
  }
}

// A glimpse of a large map: its points alone are read.
TEST(SpatialTransformer, FewPointsOfManyPixels) {
  for (const int64_t channels : {1, 3, 19}) {
    const LayerCase c{.layer = layer("output_H: 3 output_W: 4"),
                      .bottoms = {uniform({2, channels, 41, 43}), kMaps}};
    check_engines(c);
  }
  check_gradients(
      {.layer = layer("output_H: 1 output_W: 2"), .bottoms = {uniform({2, 2, 17, 18}), kMaps}});
  // The gradient of theta alone.
  check_gradients({.layer = layer("output_H: 1 output_W: 2 to_compute_dU: false"),
                   .bottoms = {uniform({2, 2, 17, 18}), kMaps}});
  const Input identity = given({1, 6}, {1, 0, 0, 0, 1, 0});
  const LayerCase large{.layer = layer("output_H: 2 output_W: 2"),
                        .bottoms = {uniform({1, 3, 100, 120}), identity}};
  LayerRun run(large, {.trains = false});
  run.forward();
  const auto& x = run.bottom_values(0);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 4; ++i)
      EXPECT_FLOAT_EQ(run.top(0)[4 * c + i], x[c * 12000 + i / 2 * 6000 + i % 2 * 60]) << c << i;
  }
  // The row and the column of four points.
  EXPECT_EQ(run.layer().kept_bytes(), 4 * 2 * sizeof(double));
}

// Columns -3.5 to 4 and beyond of a map of three: what lies outside is 0, or the pixel at the
// border.
TEST(SpatialTransformer, PointsOutsideAreZeroOrAtTheBorder) {
  const auto run_with = [](const std::string& settings, int64_t channels, DType dtype) {
    std::vector<double> maps;
    for (int64_t c = 0; c < channels; ++c) maps.insert(maps.end(), {1, 2, 4});
    LayerRun run(
        {.layer = layer(text("output_H: 1 output_W: 6 align_corners: true ", settings)),
         // Column 1 + 2.5 x, for x = -1, -0.6, ... 1.
         .bottoms = {given({1, channels, 1, 3}, maps), given({1, 6}, {1, 0, 0, 0, 2.5, 0})}},
        {.dtype = dtype});
    run.forward();
    run.set_top_diff(0, std::vector<double>(static_cast<size_t>(6 * channels), 1));
    run.backward();
    std::vector<double> y(run.top(0).begin(), run.top(0).begin() + 6);
    const std::vector<double> dx = run.bottom_diff(0);
    y.insert(y.end(), dx.begin(), dx.begin() + 3);
    y.push_back(run.bottom_diff(1)[4] / static_cast<double>(channels));
    return y;
  };
  for (const int64_t channels : {1, 3, 16}) {
    for (const SimdLevel level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      SCOPED_TRACE(text(channels, " ", to_string(level)));
      const SimdLimit limit(level);
      // Columns -1.5, -0.5, 0.5, 1.5, 2.5, 3.5.
      expect_close(run_with("", channels, DType::f64),
                   {0, 0.5, 1.5, 3, 2, 0, 1, 1, 1, -0.6 * 1 - 0.2 * 1 + 0.2 * 2 - 0.6 * 4},
                   {1e-12, 1e-12}, "zeros");
      expect_close(run_with("padding_mode: BORDER", channels, DType::f64),
                   {1, 1, 1.5, 3, 4, 4, 2.5, 1, 2.5, -0.2 * 1 + 0.2 * 2}, {1e-12, 1e-12}, "border");
      expect_close(run_with("padding_mode: BORDER", channels, DType::f32),
                   {1, 1, 1.5, 3, 4, 4, 2.5, 1, 2.5, -0.2 * 1 + 0.2 * 2}, {1e-5, 1e-5}, "border");
    }
  }
  LayerRun nan({.layer = layer("padding_mode: BORDER"),
                .bottoms = {uniform({1, 1, 4, 4}), given({1, 6}, {1, std::nan(""), 0, 0, 1, 0})}});
  nan.forward();
  EXPECT_THAT(nan.top(0), Each(testing::IsNan()));
}

TEST(SpatialTransformer, PixelsWithoutWeightAreNotRead) {
  // The identity: each point is a pixel, and its neighbours weigh nothing, whatever they hold.
  const Input identity = given({1, 6}, {1, 0, 0, 0, 1, 0});
  std::vector<double> values(36, 1);
  values[14] = std::numeric_limits<double>::infinity();
  LayerRun run({.layer = layer(""), .bottoms = {given({1, 1, 6, 6}, values), identity}});
  run.forward();
  EXPECT_EQ(run.top(0), values);
  std::vector<double> slopes(36, 1);
  slopes[14] = std::numeric_limits<double>::infinity();
  run.bottom_values(0).assign(36, 1);
  run.forward();
  run.set_top_diff(0, slopes);
  run.backward({true, false});
  EXPECT_EQ(run.bottom_diff(0), slopes);
}

// Points that are pixels have their slopes from the right: diagonal neighbours count in none, and
// behind the last row and column there are zeros.
TEST(SpatialTransformer, SlopesAtPixelsAreThoseFromTheRight) {
  for (const int64_t channels : {1, 16}) {
    std::vector<double> values;
    for (int64_t i = 0; i < channels * 36; ++i)
      values.push_back(static_cast<double>(i % 36 / 6 * 10 + i % 6));
    const auto gradient = [&](const char* settings) {
      LayerRun run(
          {.layer = layer(settings),
           .bottoms = {given({1, channels, 6, 6}, values), given({1, 6}, {1, 0, 0, 0, 1, 0})}});
      run.forward();
      run.set_top_diff(0, std::vector<double>(static_cast<size_t>(4 * channels), 1));
      run.backward();
      std::vector<double> each = run.bottom_diff(1);
      for (double& d : each) d /= static_cast<double>(channels);
      return each;
    };
    for (const SimdLevel level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      SCOPED_TRACE(text(channels, " ", to_string(level)));
      const SimdLimit limit(level);
      EXPECT_THAT(gradient("output_H: 2 output_W: 2 align_corners: true"),
                  testing::ElementsAre(-312.5, -12.5, -212.5, -125, -155, -145));
      const std::vector<double> finite = values;
      for (size_t c = 0; c < values.size(); c += 36) {
        for (const size_t diagonal : {7, 10, 25, 28})
          values[c + diagonal] = std::numeric_limits<double>::infinity();
      }
      EXPECT_THAT(gradient("output_H: 2 output_W: 2"),
                  testing::ElementsAre(-60, -60, 120, -6, -6, 12));
      values = finite;
    }
  }
}

TEST(SpatialTransformer, TheIdentityCopies) {
  const Input identity = given({1, 6}, {1, 0, 0, 0, 1, 0});
  for (const char* settings : {"", "align_corners: true", "align_corners: false"}) {
    LayerRun run({.layer = layer(settings), .bottoms = {uniform({1, 2, 4, 5}), identity}},
                 {.dtype = DType::f64});
    run.forward();
    expect_close(run.top(0), run.bottom_values(0), {1e-12, 0}, settings);
  }
}

TEST(SpatialTransformer, AFixedMapNeedsNoSecondBottom) {
  const LayerCase c{.layer = layer("theta_1_1: 0 theta_1_2: 1 theta_1_3: 0 theta_2_1: 1 "
                                   "theta_2_2: 0 theta_2_3: 0"),
                    .bottoms = {given({1, 1, 2, 2}, {1, 2, 3, 4})}};
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), testing::ElementsAre(1, 3, 2, 4));  // rows are columns
  check_gradients(c);
}

TEST(SpatialTransformer, OutsideIsZeroWhateverTheMapHolds) {
  LayerCase c{.layer = layer(""),
              .bottoms = {uniform({1, 1, 3, 3}), given({1, 6}, {1, 0, 9, 0, 1, 0})}};
  c.bottoms[0].values = std::vector<double>(9, std::numeric_limits<double>::infinity());
  for (const double shift : {9.0, std::numeric_limits<double>::infinity()}) {
    c.bottoms[1].values[2] = shift;
    LayerRun run(c);
    run.forward();
    EXPECT_THAT(run.top(0), Each(0));
  }
  c.bottoms[1].values[2] = std::numeric_limits<double>::quiet_NaN();
  LayerRun run(c);
  run.forward();
  for (const double y : run.top(0)) EXPECT_TRUE(std::isnan(y));
  run.backward();
  for (const double d : run.bottom_diff(1)) EXPECT_TRUE(std::isnan(d));
}

TEST(SpatialTransformer, MapsMayGetNoGradient) {
  LayerRun run({.layer = layer("to_compute_dU: false"), .bottoms = {uniform({2, 1, 3, 3}), kMaps}});
  EXPECT_FALSE(run.layer().can_propagate(0));
  EXPECT_TRUE(run.layer().can_propagate(1));
}

TEST(SpatialTransformer, ResultsDoNotDependOnThreads) {
  const auto results = [](int threads) {
    const ThreadScope scope(threads);
    LayerRun run({.layer = layer(""), .bottoms = {uniform({2, 5, 40, 30}), kMaps}});
    run.forward();
    run.backward();
    return std::vector<std::vector<double>>{run.top(0), run.bottom_diff(0), run.bottom_diff(1)};
  };
  const auto one = results(1);
  EXPECT_EQ(results(2), one);
  EXPECT_EQ(results(3), one);
}

TEST(SpatialTransformer, Refuses) {
  const auto refuses = [](const std::string& settings, const Shape& u, const Shape& theta,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = layer(settings), .bottoms = {uniform(u), uniform(theta)}});
        },
        parts);
  };
  refuses("", {2, 1, 3, 3}, {2, 5}, {"bottom1", "2x5", "6 elements"});
  refuses("theta_1_1: 1", {2, 1, 3, 3}, {2, 6}, {"5 elements", "fix 1"});
  refuses("", {2, 1, 3, 3}, {1, 6}, {"2 samples"});
  refuses("", {2, 3, 3}, {2, 6}, {"bottom0", "(N, C, H, W)"});
  refuses("output_H: 0", {2, 1, 3, 3}, {2, 6}, {"output_H"});
  refuses("transform_type: 'tps'", {2, 1, 3, 3}, {2, 6}, {"tps", "affine"});
  refuses("sampler_type: 'cubic'", {2, 1, 3, 3}, {2, 6}, {"cubic", "bilinear"});
  refuses("theta_2_3: nan", {2, 1, 3, 3}, {2, 5}, {"theta_2_3"});
}

}  // namespace
}  // namespace crema::test
