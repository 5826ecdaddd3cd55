// Layers that resample maps. Values: the cases of tests/golden/torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const std::vector<std::string>& layers() {
  static const std::vector<std::string> all = {
      "layer { type: 'Interp' interp_param { height: 8 width: 10 } }",
      "layer { type: 'Interp' interp_param { zoom_factor: 2 } }",
      "layer { type: 'Interp' interp_param { shrink_factor: 2 } }",
      "layer { type: 'Interp' interp_param { height: 3 width: 9 pad_beg: -1 pad_end: -1 } }",
      "layer { type: 'Resize' resize_param { height: 9 width: 4 } }",
      "layer { type: 'Resize' resize_param { scale_h: 2 scale_w: 0.5 align_corners: true } }",
      "layer { type: 'Resize' resize_param { scale: 1.5 mode: NEAREST } }",
      "layer { type: 'Resize' resize_param { scale: 1.5 mode: NEAREST align_corners: true } }",
      "layer { type: 'Resize' resize_param { scale: 2 mode: BICUBIC } }",
      "layer { type: 'Resize' resize_param { height: 3 width: 8 mode: NEAREST_EXACT } }",
      "layer { type: 'ResizeNearestNeighbor' resize_nearest_neighbor_param { "
      "scaling_factor_height: 2 scaling_factor_width: 3 align_corners: true } }",
      "layer { type: 'UpsampleDarknet' }",
      "layer { type: 'Upsample' upsample_param { scale_h: 2 scale_w: 3 pad_out_h: true } }",
      "layer { type: 'Unpooling' unpooling_param { unpool: AVE kernel_size: 3 stride: 2 pad: 1 } }",
      "layer { type: 'Unpooling' unpooling_param { unpool: TILE kernel_h: 2 kernel_w: 3 "
      "stride_h: 2 stride_w: 1 } }",
  };
  return all;
}

TEST(Resample, Gradients) {
  for (const std::string& layer : layers()) {
    SCOPED_TRACE(layer);
    check_gradients({.layer = layer, .bottoms = {uniform({2, 3, 5, 6})}});
  }
}

TEST(Resample, EveryEngineAndFormat) {
  for (const std::string& layer : layers()) {
    SCOPED_TRACE(layer);
    for (const Shape& shape : {Shape{2, 5, 5, 6}, Shape{1, 1, 5, 6}, Shape{2, 17, 4, 3}}) {
      EXPECT_THAT(check_engines({.layer = layer, .bottoms = {uniform(shape)}}),
                  testing::IsSupersetOf({"reference contiguous", "reference channels_last"}));
    }
  }
  check_engines({.layer = "layer { type: 'Resize' resize_param { height: 4 width: 9 } }",
                 .bottoms = {uniform({3, 5})}});
  check_engines({.layer = "layer { type: 'Resize' resize_param { scale: 2 } }",
                 .bottoms = {uniform({2, 3, 2, 4, 5})}});
}

// Each pixel of the smaller map must count: a gradient that gets lost at a border goes unnoticed
// where values are compared alone.
TEST(Resample, WeightsOfAPointAddUpToOne) {
  for (const std::string& layer : layers()) {
    if (layer.find("Unpooling") != std::string::npos) continue;
    SCOPED_TRACE(layer);
    LayerRun run({.layer = layer, .bottoms = {given({1, 1, 5, 6}, std::vector<double>(30, 0.75))}},
                 {.dtype = DType::f64});
    run.forward();
    for (const double y : run.top(0)) EXPECT_NEAR(y, 0.75, 1e-14);
  }
}

// Three of five columns: the pixels at or before 0, 5/3 and 10/3, or those under the middles of the
// three, 5/6, 15/6 and 25/6.
TEST(Resample, NearestPixelsAreThoseBeforeThePointOrUnderTheMiddle) {
  for (const auto& [mode, expected] : {std::pair{"NEAREST", std::vector<double>{0, 1, 3}},
                                       std::pair{"NEAREST_EXACT", std::vector<double>{0, 2, 4}}}) {
    LayerRun run({.layer = text("layer { type: 'Resize' resize_param { height: 1 width: 3 mode: ",
                                mode, " } }"),
                  .bottoms = {given({1, 1, 1, 5}, {0, 1, 2, 3, 4})}});
    run.forward();
    EXPECT_EQ(run.top(0), expected) << mode;
  }
}

// As the page says: a single row is that of the middle, or with align_corners the first one.
TEST(Resample, ATopOfOneRow) {
  const auto row = [](const std::string& settings) {
    LayerRun run({.layer = text("layer { type: 'Resize' resize_param { height: 1 width: 1 ",
                                settings, " } }"),
                  .bottoms = {given({1, 1, 4, 1}, {1, 2, 4, 8})}});
    run.forward();
    return run.top(0)[0];
  };
  EXPECT_EQ(row(""), 3);
  EXPECT_EQ(row("align_corners: true"), 1);
  EXPECT_EQ(row("mode: BICUBIC align_corners: true"), 1);
  EXPECT_EQ(row("mode: NEAREST"), 1);
  EXPECT_EQ(row("mode: NEAREST_EXACT"), 4);
}

TEST(Resample, OddSizesComeBackWithPadOut) {
  LayerRun run({.layer = "layer { type: 'Upsample' upsample_param { pad_out_h: true } }",
                .bottoms = {given({1, 1, 2, 2}, {1, 2, 3, 4})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, 3, 4}));
  EXPECT_EQ(run.top(0), (std::vector<double>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4}));
}

LayerCase masked(std::vector<double> mask) {
  return {.layer = "layer { type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 4 } }",
          .bottoms = {given({1, 1, 2, 2}, {5, 6, 7, 8}), given({1, 1, 2, 2}, std::move(mask))}};
}

TEST(Unpool, PutsValuesAtTheirPlaces) {
  LayerRun run(masked({0, 3, 9, 11}));
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{5, 0, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8}));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{1, 4, 10, 12}));
  check_engines(masked({0, 3, 9, 11}));
}

TEST(Unpool, TheLastOfSeveralValuesCountsAndAllGetTheGradient) {
  LayerRun run(masked({2, 2, 2, 0}));
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{3, 3, 3, 1}));
}

TEST(Unpool, PlacesOutsideTheMapAreErrors) {
  for (const double place : {-1.0, 12.0, 2.5, std::nan("")}) {
    LayerRun run(masked({0, 3, place, 11}));
    expect_error([&] { run.forward(); }, {"value 2", "bottom1", "3 x 4"});
  }
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'Upsample' }",
                  .bottoms = {uniform({1, 1, 2, 2}), uniform({1, 1, 2, 3})}});
      },
      {"1x1x2x3", "1x1x2x2", "one place for each value"});
}

TEST(Unpool, Gradients) {
  check_gradients(masked({0, 3, 9, 11}), {.bottoms = {0}});
  check_gradients(
      {.layer = "layer { type: 'Unpooling' unpooling_param { kernel_size: 2 stride: 2 } }",
       .bottoms = {uniform({1, 2, 1, 2}), given({1, 2, 1, 2}, {0, 7, 5, 2})}},
      {.bottoms = {0}});
}

TEST(Resample, WrongSettings) {
  const auto refuses = [](const std::string& layer, std::initializer_list<std::string_view> parts,
                          const Shape& bottom = {1, 2, 5, 6}) {
    SCOPED_TRACE(layer);
    expect_error([&] { LayerRun({.layer = layer, .bottoms = {uniform(bottom)}}); }, parts);
  };
  refuses("layer { type: 'Interp' }", {"one of height with width, and zoom_factor"});
  refuses("layer { type: 'Interp' interp_param { height: 4 } }", {"height 4 and width 0"});
  refuses("layer { type: 'Interp' interp_param { height: 4 width: 4 zoom_factor: 2 } }", {"only"});
  refuses("layer { type: 'Interp' interp_param { zoom_factor: 0 } }", {"zoom_factor 0"});
  refuses("layer { type: 'Interp' interp_param { zoom_factor: 2 pad_beg: 1 } }", {"pad_beg 1"});
  refuses("layer { type: 'Interp' interp_param { zoom_factor: 2 pad_beg: -3 pad_end: -3 } }",
          {"nothing is left"});
  refuses("layer { type: 'Resize' }", {"given 0 times", "second bottom"});
  refuses("layer { type: 'Resize' resize_param { height: 4 } }", {"the width", "0 times"});
  refuses("layer { type: 'Resize' resize_param { height: 4 width: 4 scale: 2 } }", {"2 times"});
  refuses("layer { type: 'Resize' resize_param { scale: 2 scale_h: 2 } }", {"mean the same"});
  refuses("layer { type: 'Resize' resize_param { scale: -2 } }", {"-2"});
  refuses("layer { type: 'Resize' resize_param { scale: 0.1 } }", {"cannot become 0"});
  refuses(
      "layer { type: 'Resize' resize_param { scale: 2 mode: NEAREST_EXACT align_corners: true } }",
      {"align_corners", "NEAREST_EXACT"});
  refuses("layer { type: 'ResizeNearestNeighbor' }", {"output_height", "scaling_factor_height"});
  refuses("layer { type: 'UpsampleDarknet' upsample_darknet_param { stride: 0 } }",
          {"stride is 0"});
  refuses("layer { type: 'Upsample' upsample_param { upsample_h: 4 } }", {"give both"});
  refuses("layer { type: 'Upsample' upsample_param { scale: 0 } }", {"scale of 0"});
  refuses("layer { type: 'Upsample' }", {"N x C x H x W", "2x5"}, {2, 5});
  refuses("layer { type: 'Unpooling' unpooling_param { unpool: AVE } }", {"kernel 0"});
}

}  // namespace
}  // namespace crema::test
