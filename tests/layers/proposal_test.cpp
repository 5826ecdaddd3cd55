// Proposal. Values computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

std::string layer(const std::string& settings) {
  return "layer { type: 'Proposal' proposal_param { " + settings + " } }";
}

/// One anchor of 16 x 16 pixels around (7.5, 7.5) on a map of 2 x 3 cells, 16 pixels apart.
const char* const kOne = "ratio: 1 scale: 1 base_size: 16 min_size: 4 nms_thresh: 0.5 ";
LayerCase one_anchor(const std::string& settings, std::vector<double> objects,
                     std::vector<double> offsets = std::vector<double>(24, 0)) {
  std::vector<double> scores(6, 0.5);
  scores.insert(scores.end(), objects.begin(), objects.end());
  return {.layer = layer(kOne + settings),
          .bottoms = {given({1, 2, 2, 3}, scores), given({1, 4, 2, 3}, std::move(offsets)),
                      given({1, 3}, {30, 45, 1})},
          .tops = 2};
}

TEST(Proposal, AnchorsByFallingScore) {
  LayerRun run(one_anchor("post_nms_topn: 4", {0.1, 0.9, 0.3, 0.7, 0.2, 0.8}),
               {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape().str(), "4x5");
  EXPECT_EQ(run.top(0), (std::vector<double>{0, 16, 0,  32, 16,  //
                                             0, 32, 16, 44, 29,  // cut to 45 x 30
                                             0, 0,  16, 16, 29,  //
                                             0, 32, 0,  44, 16}));
  EXPECT_EQ(run.top(1), (std::vector<double>{0.9, 0.8, 0.7, 0.3}));
}

TEST(Proposal, OffsetsMoveAndScale) {
  std::vector<double> offsets(24, 0);
  offsets[0] = 0.25;                 // x of cell 0: by 4 pixels
  offsets[6] = 0.125;                // y: by 2
  offsets[12] = std::log(0.5);       // half as wide
  offsets[18] = -2 * std::log(2.0);  // a quarter as high
  LayerRun run(one_anchor("post_nms_topn: 1", {0.9, 0, 0, 0, 0, 0}, offsets),
               {.dtype = DType::f64});
  run.forward();
  // The centre (8, 8) goes to (12, 10); sides 8 and 4.
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-12), std::vector<double>{0, 8, 8, 16, 12}));
}

TEST(Proposal, TheAnchorsOfThePublishedLayer) {
  // Its nine anchors of ratios 0.5, 1, 2 and scales 8, 16, 32, moved into an image of 2000 pixels.
  std::vector<double> scores(18, 0);
  for (size_t k = 0; k < 9; ++k) scores[9 + k] = 0.9 - 0.01 * static_cast<double>(k);
  std::vector<double> offsets(36, 0);
  const std::vector<std::vector<double>> published = {
      {-84, -40, 99, 55}, {-176, -88, 191, 103},  {-360, -184, 375, 199},
      {-56, -56, 71, 71}, {-120, -120, 135, 135}, {-248, -248, 263, 263},
      {-36, -80, 51, 95}, {-80, -168, 95, 183},   {-168, -344, 183, 359}};
  std::vector<double> expected;
  for (size_t k = 0; k < 9; ++k) {
    const std::vector<double>& a = published[k];
    const double width = a[2] - a[0] + 1, height = a[3] - a[1] + 1;
    offsets[4 * k] = 800 / width;
    offsets[4 * k + 1] = 900 / height;
    // The far edge is the centre and half a side, as published.
    expected.insert(expected.end(), {0, a[0] + 800, a[1] + 900, a[2] + 801, a[3] + 901});
  }
  LayerRun run({.layer = layer("nms_thresh: 1"),
                .bottoms = {given({1, 18, 1, 1}, scores), given({1, 36, 1, 1}, offsets),
                            given({1, 3}, {2000, 2000, 1})}},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-9), expected));
}

TEST(Proposal, SuppressionInPixels) {
  // Cell 1 moves left by 8 pixels: 8 of 24 columns are shared with cell 0.
  std::vector<double> offsets(24, 0);
  offsets[1] = -0.5;
  const std::vector<double> scores = {0.9, 0.8, 0, 0, 0, 0};
  const auto regions = [&](const char* threshold) {
    LayerCase c =
        one_anchor(std::string("pre_nms_topn: 2 nms_thresh: ") + threshold, scores, offsets);
    c.layer.replace(c.layer.find("nms_thresh: 0.5 "), 16, "");
    LayerRun run(c, {.dtype = DType::f64});
    run.forward();
    return run.top_blob(0).shape()[0];
  };
  // Boxes (0, 0, 16, 16) and (8, 0, 24, 16) of 17 x 17 pixels, cut at 0: they share 9 x 17.
  EXPECT_EQ(regions("0.4"), 2);
  EXPECT_EQ(regions("0.3"), 1);
}

TEST(Proposal, SmallRegionsAreDropped) {
  std::vector<double> offsets(24, 0);
  offsets[12] = offsets[13] = std::log(0.25);  // 4 wide
  LayerCase c = one_anchor("", {0.9, 0.8, 0.7, 0.6, 0.5, 0.4}, offsets);
  c.bottoms[2] = given({1, 3}, {30, 45, 1.5});  // min_size 4 is 6 pixels
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top(1), (std::vector<double>{0.7, 0.6, 0.5, 0.4}));
  c.bottoms[2] = given({1, 4}, {30, 45, 1.5, 1});  // 4 wide is enough
  run.reshape(c.bottoms);
  run.forward();
  EXPECT_EQ(run.top(1), (std::vector<double>{0.9, 0.8, 0.7, 0.6, 0.5, 0.4}));
  c.bottoms[2] = given({1, 3}, {30, 45, 100});
  run.reshape(c.bottoms);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape().str(), "0x5");
}

/// With any min_size: a region of such sides is none.
TEST(Proposal, RegionsOfNaNAreDropped) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN()}) {
    for (size_t offset = 0; offset < 4; ++offset) {
      std::vector<double> offsets(24, 0);
      offsets[6 * offset + 2] = bad;
      LayerCase c = one_anchor("", {0.9, 0.8, 0.7, 0.6, 0.5, 0.4}, offsets);
      c.layer.replace(c.layer.find("min_size: 4"), 11, "min_size: 0");
      LayerRun run(c, {.dtype = DType::f64});
      run.forward();
      EXPECT_EQ(run.top(1), (std::vector<double>{0.9, 0.8, 0.6, 0.5, 0.4})) << offset;
    }
  }
}

TEST(Proposal, EqualScoresKeepTheOrderOfRowsColumnsAndAnchors) {
  LayerRun run({.layer = layer("ratio: 1 scale: 1 scale: 2 min_size: 1 nms_thresh: 1"),
                .bottoms = {given({2, 4, 1, 2}, std::vector<double>(16, 0.5)),
                            given({2, 8, 1, 2}, std::vector<double>(32, 0)),
                            given({2, 3}, {64, 64, 1, 40, 24, 1})}},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{0, 0,  0, 16, 16, 0, 0, 0, 24, 24,  //
                                             0, 16, 0, 32, 16, 0, 8, 0, 40, 24,  //
                                             1, 0,  0, 16, 16, 1, 0, 0, 23, 24,  //
                                             1, 16, 0, 23, 16, 1, 8, 0, 23, 24}));
}

TEST(Proposal, EveryEngine) {
  check_engines({.layer = layer("scale: 2 scale: 4 min_size: 3"),
                 .bottoms = {uniform({2, 12, 4, 5}, 0, 1), uniform({2, 24, 4, 5}, -0.3, 0.3),
                             given({2, 3}, {64, 80, 1, 60, 70, 1})},
                 .tops = 2});
}

TEST(Proposal, FeedsALayerOfRegions) {
  Context context;
  Net net(
      net_param("layer { name: 'in' type: 'Input' top: 's' top: 'd' top: 'i' input_param { "
                "shape { dim: 1 dim: 6 dim: 4 dim: 5 } shape { dim: 1 dim: 12 dim: 4 dim: 5 } "
                "shape { dim: 1 dim: 3 } } } "
                "layer { name: 'p' type: 'Proposal' bottom: 's' bottom: 'd' bottom: 'i' top: 'r' "
                "proposal_param { scale: 2 } } "
                "layer { name: 'pool' type: 'ROIPooling' bottom: 's' bottom: 'r' top: 'y' "
                "roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.0625 } }"),
      context, {.phase = Phase::test, .keep = {"r"}});
  fill_inputs(net, 0, 0.1);
  float* info = net.input("i").overwrite<float>();
  info[0] = 64, info[1] = 80, info[2] = 1;
  net.forward();
  const int64_t regions = net.blob("r").data.shape()[0];
  EXPECT_GT(regions, 0);
  EXPECT_EQ(net.blob("y").data.shape().str(), text(regions, "x6x2x2"));
}

TEST(Proposal, Errors) {
  const auto refuses = [](const std::string& settings, const std::vector<Input>& bottoms,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(settings);
    expect_error(
        [&] {
          LayerRun run({.layer = layer(settings), .bottoms = bottoms});
          run.forward();
        },
        parts);
  };
  const Input scores = uniform({1, 18, 2, 3}), offsets = uniform({1, 36, 2, 3});
  const Input info = given({1, 3}, {32, 48, 1});
  refuses("", {uniform({1, 9, 2, 3}), offsets, info}, {"1x9x2x3", "18", "9 anchors"});
  refuses("", {scores, uniform({1, 36, 3, 2}), info}, {"1x36x3x2", "offsets"});
  refuses("", {scores, offsets, uniform({1, 2})}, {"1x2", "height, width and scale"});
  refuses("", {scores, offsets, given({1, 3}, {32, 0, 1})}, {"says 0 for image 0"});
  Input no_number = scores;
  no_number.values = std::vector<double>(18 * 6, 0.5);
  no_number.values[(9 + 3) * 6 + 5] = std::nan("");
  refuses("", {given({1, 18, 2, 3}, no_number.values), offsets, info},
          {"image 0", "row 1, column 2, anchor 3", "NaN"});
  refuses("feat_stride: 0", {scores, offsets, info}, {"feat_stride 0"});
  refuses("ratio: -1", {scores, offsets, info}, {"ratio -1"});
  refuses("nms_thresh: -1", {scores, offsets, info}, {"nms_thresh -1"});
}

}  // namespace
}  // namespace crema::test
