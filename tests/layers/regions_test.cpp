// Layers that pool regions. Further values of ROIPooling: the cases roipooling_* of
// tests/golden/ssd.
#include <gtest/gtest.h>

#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const std::vector<double> kRegions = {0, 0,  0, 31, 23,  //
                                      1, 5,  3, 20, 19,  //
                                      0, 12, 9, 12, 9,   // one pixel
                                      1, -8, 4, 40, 60,  // beyond the image
                                      0, 20, 6, 29, 22};
Input regions() { return given({5, 5}, kRegions); }

struct RegionCase {
  std::string layer;
  int64_t channels;
};
std::vector<RegionCase> cases() {
  return {
      {"layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 "
       "} }",
       3},
      {"layer { type: 'ROIPooling' roi_pooling_param { pooled_size: 2 spatial_scale: 0.25 } }", 3},
      {"layer { type: 'ROIAlign' roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 } }",
       3},
      {"layer { type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.25 "
       "sampling_ratio: 2 aligned: true } }",
       3},
      {"layer { type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 0.25 output_dim: 2 "
       "group_size: 3 } }",
       18},
      {"layer { type: 'PSROIAlign' psroi_align_param { spatial_scale: 0.25 output_dim: 2 "
       "group_size: 3 } }",
       18},
      {"layer { type: 'PSROIAlign' psroi_align_param { spatial_scale: 0.25 output_dim: 3 "
       "group_size: 2 sampling_ratio: 2 } }",
       12},
  };
}

TEST(Regions, Gradients) {
  for (const RegionCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    // Distinct values: the maxima do not change within the step of the differences.
    std::vector<double> x(static_cast<size_t>(2 * c.channels * 48));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<double>(i * 2654435761U % 10007) / 5000;
    check_gradients({.layer = c.layer, .bottoms = {given({2, c.channels, 6, 8}, x), regions()}});
  }
}

TEST(Regions, EveryEngine) {
  for (const RegionCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    check_engines({.layer = c.layer, .bottoms = {uniform({2, c.channels, 6, 8}), regions()}});
    check_engines(
        {.layer = c.layer, .bottoms = {uniform({2, c.channels, 6, 8}), given({0, 5}, {})}});
  }
}

TEST(ROIPooling, TheMaximumOfEachCell) {
  std::vector<double> x;
  for (int i = 0; i < 16; ++i) x.push_back(i);
  LayerRun run(
      {.layer = "layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 } }",
       .bottoms = {given({1, 1, 4, 4}, x), given({2, 5}, {0, 0, 0, 3, 3, 0, 1, 1, 2, 2})}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{5, 7, 13, 15, 5, 6, 9, 10}));
}

TEST(ROIPooling, HalvesAreRoundedAwayFromZero) {
  std::vector<double> x;
  for (int i = 0; i < 8; ++i) x.push_back(i);
  // Columns round(x1 / 2) to round(x2 / 2): 0.5 to 1, 2.5 to 3, 4.5 to 5, -0.5 to -1.
  LayerRun run({.layer = "layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 1 pooled_w: 3 "
                         "spatial_scale: 0.5 } }",
                .bottoms = {given({1, 1, 1, 8}, x),
                            given({3, 5}, {0, 1, 0, 5, 0, 0, 5, 0, 9, 0, 0, -1, 0, 2, 0})}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{1, 2, 3, 3, 4, 5, 0, 0, 1}));
}

TEST(ROIPooling, NaNIsAMaximumAndEmptyCellsAreZero) {
  std::vector<double> x(16, 1);
  x[5] = std::numeric_limits<double>::quiet_NaN();
  LayerRun run(
      {.layer = "layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 1 pooled_w: 1 } }",
       .bottoms = {given({1, 1, 4, 4}, x), given({2, 5}, {0, 0, 0, 3, 3, 0, 100, 100, 120, 120})}});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
  EXPECT_EQ(run.top(0)[1], 0);
}

TEST(ROIAlign, InterpolatesALinearMapExactly) {
  // x = 10 h + w: the average over a cell is the value at its centre.
  std::vector<double> x;
  for (int h = 0; h < 8; ++h) {
    for (int w = 0; w < 8; ++w) x.push_back(10 * h + w);
  }
  LayerRun run({.layer = "layer { type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 "
                         "aligned: true } }",
                .bottoms = {given({1, 1, 8, 8}, x), given({1, 5}, {0, 1.5, 2.5, 5.5, 6.5})}},
               {.dtype = DType::f64});
  run.forward();
  // Cells of side 2 from (1, 2) on, in centres of pixels.
  expect_close(run.top(0), {32, 34, 52, 54}, {1e-12, 1e-12}, "cells");
}

TEST(ROIAlign, SmallRegionsCoverOnePixelUnlessAligned) {
  std::vector<double> x;
  for (int i = 0; i < 16; ++i) x.push_back(i % 4);
  const std::string settings = "roi_align_param { pooled_h: 1 pooled_w: 1 sampling_ratio: 1";
  const auto top = [&](const std::string& more) {
    LayerRun run({.layer = "layer { type: 'ROIAlign' " + settings + more + " } }",
                  .bottoms = {given({1, 1, 4, 4}, x), given({1, 5}, {0, 1, 1, 1.5, 1.5})}},
                 {.dtype = DType::f64});
    run.forward();
    return run.top(0)[0];
  };
  EXPECT_NEAR(top(""), 1.5, 1e-12);
  EXPECT_NEAR(top(" aligned: true"), 0.75, 1e-12);
}

TEST(PSROIPooling, EachCellReadsItsOwnMaps) {
  std::vector<double> x;
  for (int c = 0; c < 8; ++c) x.insert(x.end(), 16, c);
  LayerRun run({.layer = "layer { type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 1 "
                         "output_dim: 2 group_size: 2 } }",
                .bottoms = {given({1, 8, 4, 4}, x), given({1, 5}, {0, 0, 0, 3, 3})}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(PSROIAlign, EachCellReadsItsOwnMaps) {
  std::vector<double> x;
  for (int c = 0; c < 8; ++c) x.insert(x.end(), 16, c);
  const std::string layer =
      "layer { type: 'PSROIAlign' psroi_align_param { output_dim: 2 group_size: 2 } }";
  LayerRun run({.layer = layer,
                .bottoms = {given({1, 8, 4, 4}, x), given({2, 5}, {0, 0, 0, 3, 3, 0, 2, 2, 2, 2})}},
               {.dtype = DType::f64});
  run.forward();
  // A region without extent has no samples.
  expect_close(run.top(0), {0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0}, {1e-12, 1e-12},
               "cells");
}

TEST(Regions, WrongRegionsAndSettings) {
  const auto refuses = [](const std::string& layer, const Shape& maps, const Input& given_regions,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(layer);
    expect_error(
        [&] {
          LayerRun run({.layer = layer, .bottoms = {uniform(maps), given_regions}});
          run.forward();
        },
        parts);
  };
  const std::string pool =
      "layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 } }";
  refuses(pool, {2, 1, 4, 4}, given({1, 5}, {2, 0, 0, 1, 1}), {"region 0", "image 2", "0 to 1"});
  refuses(pool, {2, 1, 4, 4}, given({1, 5}, {0.5, 0, 0, 1, 1}), {"image 0.5"});
  refuses(pool, {2, 1, 4, 4}, given({1, 5}, {0, 0, std::nan(""), 1, 1}), {"coordinate nan"});
  refuses(pool, {2, 1, 4, 4}, uniform({3, 4}), {"R x 5", "3x4"});
  refuses(pool, {2, 1, 4}, uniform({3, 5}), {"N x C x H x W"});
  refuses("layer { type: 'ROIPooling' }", {1, 1, 4, 4}, uniform({1, 5}), {"0 x 0", "pooled_h"});
  refuses("layer { type: 'ROIPooling' roi_pooling_param { pooled_size: 2 pooled_h: 2 } }",
          {1, 1, 4, 4}, uniform({1, 5}), {"mean the same"});
  refuses("layer { type: 'ROIAlign' roi_align_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0 } }",
          {1, 1, 4, 4}, uniform({1, 5}), {"spatial_scale 0"});
  refuses(
      "layer { type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 1 output_dim: 2 "
      "group_size: 2 } }",
      {1, 7, 4, 4}, uniform({1, 5}), {"7 channels", "are 8"});
  const std::string aligned =
      "layer { type: 'PSROIAlign' psroi_align_param { output_dim: 2 group_size: 2 } }";
  refuses(aligned, {1, 7, 4, 4}, uniform({1, 5}), {"7 channels", "are 8"});
  refuses(aligned, {2, 8, 4, 4}, given({1, 5}, {2, 0, 0, 1, 1}), {"region 0", "image 2", "0 to 1"});
  refuses(aligned, {2, 8, 4, 4}, given({1, 5}, {0, 0, 0, std::nan(""), 1}), {"coordinate nan"});
  refuses("layer { type: 'PSROIAlign' psroi_align_param { output_dim: 2 } }", {1, 8, 4, 4},
          uniform({1, 5}), {"group_size 0"});
  refuses(
      "layer { type: 'PSROIAlign' psroi_align_param { output_dim: 4294967295 group_size: "
      "4294967295 } }",
      {1, 8, 4, 4}, uniform({1, 5}), {"group_size squared"});
}

}  // namespace
}  // namespace crema::test
