// Convolution3D and Pooling3D: other spellings of Convolution and Pooling over volumes.
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const Shape kVolume = {2, 4, 5, 7, 6};

/// Both types have the same results and gradients.
void expect_same(const LayerCase& fork, const LayerCase& own) {
  LayerRun a(fork), b(own);
  a.forward();
  b.forward();
  ASSERT_EQ(a.top_blob(0).shape(), b.top_blob(0).shape());
  EXPECT_EQ(a.top(0), b.top(0));
  a.backward();
  b.backward();
  EXPECT_EQ(a.bottom_diff(0), b.bottom_diff(0));
  ASSERT_EQ(a.num_params(), b.num_params());
  for (int i = 0; i < a.num_params(); ++i) EXPECT_EQ(a.gradient(i), b.gradient(i));
}

TEST(Convolution3D, IsAConvolution) {
  const std::string fillers =
      "weight_filler { type: 'gaussian' std: 1 } bias_filler { type: 'constant' value: 2 }";
  const LayerCase fork{
      .layer = text("layer { type: 'Convolution3D' convolution3d_param { num_output: 6 ",
                    "kernel_size: 3 kernel_depth: 2 stride: 2 temporal_stride: 1 pad: 1 ",
                    "temporal_pad: 0 filter_group: 2 ", fillers, " } }"),
      .bottoms = {uniform(kVolume)}};
  const LayerCase own{
      .layer = text("layer { type: 'Convolution' convolution_param { num_output: 6 ",
                    "kernel_size: 2 kernel_size: 3 kernel_size: 3 stride: 1 stride: 2 stride: 2 ",
                    "pad: 0 pad: 1 pad: 1 group: 2 ", fillers, " } }"),
      .bottoms = {uniform(kVolume)}};
  expect_same(fork, own);
  check_gradients(fork);
  check_engines(fork, {}, {"direct", "winograd", "depthwise"});  // of images and of channels alone
  LayerRun run({.layer = "layer { type: 'Convolution3D' convolution3d_param { num_output: 3 "
                         "kernel_size: 3 kernel_depth: 2 bias_term: false } }",
                .bottoms = {uniform(kVolume)}});
  EXPECT_EQ(run.num_params(), 1);
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{3, 4, 2, 3, 3}));
}

TEST(Pooling3D, IsAPooling) {
  for (const char* method : {"MAX", "AVE"}) {
    const LayerCase fork{
        .layer = text("layer { type: 'Pooling3D' pooling3d_param { pool: ", method,
                      " kernel_size: 3 kernel_depth: 2 stride: 2 temporal_stride: 1 pad: 1 } }"),
        .bottoms = {uniform(kVolume)}};
    expect_same(fork, {.layer = text("layer { type: 'Pooling' pooling_param { pool: ", method,
                                     " kernel_size_3d: 2 kernel_size_3d: 3 kernel_size_3d: 3 "
                                     "stride_3d: 1 stride_3d: 2 stride_3d: 2 "
                                     "pad_3d: 0 pad_3d: 1 pad_3d: 1 } }"),
                       .bottoms = fork.bottoms});
    check_gradients(fork);
    check_engines(fork);
  }
}

TEST(Convolution3D, Errors) {
  const auto refuses = [](const std::string& settings, const Shape& shape,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = text("layer { type: 'Convolution3D' convolution3d_param { ", settings,
                                  " } }"),
                    .bottoms = {uniform(shape)}});
        },
        parts);
  };
  refuses("num_output: 2 kernel_size: 3", kVolume, {"kernel_depth 0", "give both"});
  refuses("num_output: 2 kernel_depth: 3", kVolume, {"kernel_size 0", "give both"});
  refuses("num_output: 2 kernel_size: 3 kernel_depth: 3", {2, 4, 7, 6}, {"kernel_size"});
}

TEST(Pooling3D, Errors) {
  const auto refuses = [](const std::string& settings, const Shape& shape,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = text("layer { type: 'Pooling3D' pooling3d_param { ", settings, " } }"),
                    .bottoms = {uniform(shape)}});
        },
        parts);
  };
  refuses("kernel_size: 2", kVolume, {"kernel_depth 0"});
  refuses("kernel_size: 2 kernel_depth: 2", {2, 4, 7, 6}, {"(N, C, D, H, W)", "2x4x7x6"});
  refuses("kernel_size: 2 kernel_depth: 2 pool: STOCHASTIC pad: 1", kVolume, {"STOCHASTIC"});
}

}  // namespace
}  // namespace crema::test
