#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase im2col(const std::string& settings, const Shape& shape = {2, 3, 7, 6}) {
  return {.layer = text("layer { type: 'Im2col' convolution_param { ", settings, " } }"),
          .bottoms = {uniform(shape)}};
}

Shape top_shape(const std::string& settings, const Shape& shape = {2, 3, 7, 6}) {
  return LayerRun(im2col(settings, shape)).top_blob(0).shape();
}

TEST(Im2col, ATapIsAChannel) {
  LayerCase c = im2col("kernel_size: 2");
  c.bottoms = {given({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})};
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 4, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 2, 3, 4, 5, 5, 6));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 5, 4, 5, 13, 8));
}

TEST(Im2col, PaddingIsZero) {
  LayerCase c = im2col("kernel_size: 3 pad: 1 stride: 2");
  c.bottoms = {given({1, 1, 1, 3}, {1, 2, 3})};
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 9, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(0, 0, 0, 0, 0, 0, 0, 2, 1, 3, 2, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Im2col, Shapes) {
  EXPECT_EQ(top_shape("kernel_size: 3 pad: 1 stride: 2"), (Shape{2, 27, 4, 3}));
  EXPECT_EQ(top_shape("kernel_h: 1 kernel_w: 4"), (Shape{2, 12, 7, 3}));
  EXPECT_EQ(top_shape("kernel_size: 3 dilation: 2"), (Shape{2, 27, 3, 2}));
  EXPECT_EQ(top_shape("kernel_size: 2", {2, 3, 4, 5, 6}), (Shape{2, 24, 3, 4, 5}));
  EXPECT_EQ(top_shape("kernel_size: 3", {2, 3, 9}), (Shape{2, 9, 7}));
  EXPECT_EQ(top_shape("kernel_size: 2 axis: 2", {2, 3, 4, 5, 6}), (Shape{2, 3, 16, 4, 5}));
  EXPECT_EQ(top_shape("kernel_size: 2 axis: -3", {2, 3, 4, 5}), (Shape{2, 12, 3, 4}));
  // As those of a convolution, whatever its outputs and groups.
  EXPECT_EQ(top_shape("kernel_size: 2 num_output: 5 group: 3"), (Shape{2, 12, 6, 5}));
}

TEST(Im2col, Gradients) {
  for (const char* settings :
       {"kernel_size: 3 pad: 1 stride: 2", "kernel_size: 3 dilation: 2",
        "kernel_h: 1 kernel_w: 4 stride_h: 2 stride_w: 1", "kernel_size: 1 stride: 3"}) {
    check_gradients(im2col(settings));
  }
  check_gradients(im2col("kernel_size: 2 stride: 2 pad: 1", {2, 2, 3, 4, 3}));
  check_gradients(im2col("kernel_size: 3 axis: -2", {2, 2, 3, 7}));
}

TEST(Im2col, FollowsItsBottomsShape) {
  LayerRun run(im2col("kernel_size: 2 axis: -3"));
  run.forward();
  run.reshape({given({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 8, 1, 1}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Im2col, ReadsNothingInBackward) {
  LayerRun run(im2col("kernel_size: 2"));
  EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
  EXPECT_FALSE(run.kernel().backward_reads().top_data);
}

TEST(Im2col, Mistakes) {
  const auto mistake = [](const std::string& settings, const Shape& shape,
                          std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun{im2col(settings, shape)}; }, words);
  };
  mistake("", {2, 3, 7, 6}, {"kernel_size"});
  mistake("kernel_size: 0", {2, 3, 7, 6}, {"kernel_size is 0"});
  mistake("kernel_size: 8", {2, 3, 7, 6}, {"kernel 8", "7", "2x3x7x6"});
  mistake("kernel_size: 2 axis: 4", {2, 3, 7, 6}, {"4"});
  mistake("kernel_h: 2 kernel_w: 2", {2, 3, 7}, {"kernel_h", "2 spatial axes"});
}

}  // namespace
}  // namespace crema::test
