// Masks of pooling layers, whose values are places in maps of the pooled size, in layers that put
// values at them.
#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;

constexpr const char* kCeil = "kernel_size: 2 stride: 2";

/// Pools maps of height x width. The mask is 'mask', and what is unpooled 'p'.
std::string pooled(int height, int width, const std::string& windows = kCeil) {
  return text("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: ",
              height, " dim: ", width,
              " } } } layer { name: 'pool' type: 'Pooling' bottom: 'x' top: 'p' top: 'mask' "
              "pooling_param { ",
              windows, " } } ");
}

std::string upsample(const std::string& settings, const std::string& mask = "mask") {
  return text("layer { name: 'up' type: 'Upsample' bottom: 'p' bottom: '", mask,
              "' top: 'u' upsample_param { ", settings, " } } ");
}

std::string unpooling(const std::string& settings) {
  return text("layer { name: 'up' type: 'Unpooling' bottom: 'p' bottom: 'mask' top: 'u' ",
              "unpooling_param { kernel_size: 2 stride: 2 ", settings, " } } ");
}

/// Error, naming both sizes and `parts`, when the net is made.
void refuses(const std::string& net, std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(net);
  Context context;
  expect_error([&] { Net(net_param(net), context); }, parts);
}

/// A pass of the net puts each maximum where it was.
void unpools(const std::string& text) {
  SCOPED_TRACE(text);
  Context context;
  Net net(net_param(text), context, {.keep = {"x", "p", "u"}});
  test::fill_inputs(net);
  net.forward();
  const Tensor &x = net.blob("x").data, &p = net.blob("p").data, &u = net.blob("u").data;
  int64_t found = 0;
  for (int64_t map = 0; map < 6; ++map) {
    for (int64_t h = 0; h < u.shape()[2]; ++h) {
      for (int64_t w = 0; w < u.shape()[3]; ++w) {
        const double value = u.at((map * u.shape()[2] + h) * u.shape()[3] + w);
        if (value == 0) continue;
        ++found;
        ASSERT_LT(h, x.shape()[2]);
        ASSERT_LT(w, x.shape()[3]);
        EXPECT_EQ(value, x.at((map * x.shape()[2] + h) * x.shape()[3] + w));
      }
    }
  }
  EXPECT_EQ(found, p.count());
}

TEST(Places, OfAnotherWidthAreRefused) {
  refuses(
      pooled(9, 11) + upsample("scale: 2"),
      {"layer 'up' (Upsample)", "maps of 9 x 11", "layer 'pool' (Pooling)", "10 x 12",
       "12 columns instead of 11", "upsample_h: 9 and upsample_w: 11", "pad_out_h", "pad_out_w"});
  refuses(pooled(8, 11) + upsample("scale: 2"), {"8 x 11", "8 x 12"});
  refuses(pooled(8, 11) + upsample("upsample_h: 8 upsample_w: 10"), {"8 x 11", "8 x 10"});
  refuses(pooled(8, 10) + upsample("scale: 2 pad_out_w: true"), {"8 x 10", "8 x 9"});
  // Rounded down, places of odd maps stay places of rows of odd length.
  refuses(pooled(8, 11, "kernel_size: 2 stride: 2 round_mode: FLOOR") + upsample("scale: 2"),
          {"8 x 11", "8 x 10"});
  refuses(pooled(9, 11) + unpooling(""),
          {"layer 'up' (Unpooling)", "9 x 11", "10 x 12", "unpool_h: 9 and unpool_w: 11"});
  refuses(pooled(9, 11) + unpooling("unpool_size: 12"), {"9 x 11", "12 x 12"});
}

TEST(Places, OfMoreRowsAreRefused) {
  refuses(pooled(9, 10) + upsample("upsample_h: 8 upsample_w: 10"),
          {"9 x 10", "8 x 10", "9 rows", "no places of 8"});
}

TEST(Places, OfTheSameWidthAreRight) {
  unpools(pooled(9, 11) + upsample("upsample_h: 9 upsample_w: 11"));
  unpools(pooled(9, 11) + upsample("pad_out_h: true pad_out_w: true"));
  unpools(pooled(9, 11) + unpooling("unpool_h: 9 unpool_w: 11"));
  unpools(pooled(8, 10) + upsample("scale: 2"));
  // More rows than there were do no harm.
  unpools(pooled(9, 10) + upsample("scale: 2"));
  // The last row is in no window.
  unpools(pooled(9, 10, "kernel_size: 2 stride: 2 round_mode: FLOOR") + upsample("scale: 2"));
  // Places in one row are the same in a longer row.
  unpools(pooled(1, 11, "kernel_h: 1 kernel_w: 2 stride_h: 1 stride_w: 2") +
          upsample("scale_h: 1 scale_w: 2"));
  unpools(pooled(6, 7, "global_pooling: true") + upsample("upsample_h: 6 upsample_w: 7"));
}

TEST(Places, AreKnownBehindLayersThatMoveThem) {
  for (const char* mover :
       {"layer { name: 'm' type: 'Split' bottom: 'mask' top: 'm' top: 'other' }",
        "layer { name: 'm' type: 'Flip' bottom: 'mask' top: 'm' flip_param { flip_width: true } }",
        "layer { name: 'm' type: 'Reshape' bottom: 'mask' top: 'm' reshape_param { shape { dim: 0 "
        "dim: 0 dim: 0 dim: 0 } } }",
        "layer { name: 's' type: 'Slice' bottom: 'mask' top: 'a' top: 'b' slice_param { axis: 1 "
        "slice_point: 1 } } "
        "layer { name: 'm' type: 'Concat' bottom: 'b' bottom: 'a' top: 'm' }",
        "layer { name: 'm' type: 'Crop' bottom: 'mask' bottom: 'p' top: 'm' }"}) {
    refuses(text(pooled(9, 11), mover, " ", upsample("scale: 2", "m")), {"9 x 11", "10 x 12"});
    Context context;
    Net net(
        net_param(text(pooled(9, 11), mover, " ", upsample("upsample_h: 9 upsample_w: 11", "m"))),
        context);
  }
}

// The mask of another layer has the right shape, but not the right places.
TEST(Places, OfTwoLayersHaveToFitBoth) {
  const std::string two =
      "layer { name: 'x' type: 'Input' top: 'x' top: 'z' input_param { shape { dim: 1 dim: 3 dim: "
      "8 dim: 8 } shape { dim: 1 dim: 3 dim: 8 dim: 7 } } } "
      "layer { name: 'a' type: 'Pooling' bottom: 'x' top: 'pa' top: 'ma' pooling_param { "
      "kernel_size: 2 stride: 2 } } "
      "layer { name: 'b' type: 'Pooling' bottom: 'z' top: 'pb' top: 'mb' pooling_param { "
      "kernel_size: 2 stride: 2 } } "
      "layer { name: 'p' type: 'Concat' bottom: 'pa' bottom: 'pb' top: 'p' } "
      "layer { name: 'mask' type: 'Concat' bottom: 'ma' bottom: 'mb' top: 'mask' } ";
  refuses(two + upsample("scale: 2"), {"layer 'b' (Pooling)", "8 x 7", "8 x 8"});
  refuses(two + upsample("upsample_h: 8 upsample_w: 7"), {"layer 'a' (Pooling)", "8 x 8", "8 x 7"});
}

TEST(Places, AreCheckedWheneverShapesChange) {
  Context context;
  Net net(net_param(pooled(8, 10) + upsample("scale: 2")), context);
  test::fill_inputs(net);
  net.forward();
  net.reshape_input("x", Shape{2, 3, 8, 11});
  test::fill_inputs(net);
  expect_error([&] { net.forward(); }, {"layer 'up' (Upsample)", "8 x 11", "8 x 12"});
  net.reshape_input("x", Shape{2, 3, 8, 12});
  test::fill_inputs(net);
  net.forward();
  EXPECT_EQ(net.blob("u").shape(), (Shape{2, 3, 8, 12}));
}

// Nothing is known of the places of an input but that they have to be in the map.
TEST(Places, OfAnInputHaveToBeInTheMap) {
  Context context;
  Net net(
      net_param("layer { name: 'x' type: 'Input' top: 'p' top: 'mask' input_param { shape { dim: "
                "1 dim: 1 dim: 2 dim: 2 } } } " +
                upsample("scale: 2")),
      context);
  net.input("p").fill(1);
  net.input("mask").fill(15);
  net.forward();
  net.input("mask").fill(16);
  expect_error([&] { net.forward(); }, {"mask", "16", "4 x 4"});
}

}  // namespace
}  // namespace crema
