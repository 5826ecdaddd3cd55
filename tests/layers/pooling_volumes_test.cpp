// Pooling of sequences (N, C, L) and of volumes (N, C, D, H, W).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "layers/pooling_case.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

TEST(PoolingOfVolumes, Sequences) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = pooling("kernel_size: 2 stride: 2"),
                  .bottoms = {given({1, 2, 4}, {1, 3, 5, 2, -1, -2, -4, -3})}},
                 {.engine = engine});
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), Shape({1, 2, 2}));
    EXPECT_THAT(run.top(0), ElementsAre(3, 5, -1, -3)) << engine;
  }
}

TEST(PoolingOfVolumes, ShapesOfVolumes) {
  const Shape volume{2, 3, 8, 9, 10};
  EXPECT_EQ(top_shape(images("kernel_size: 2 stride: 2", volume)), Shape({2, 3, 4, 5, 5}));
  EXPECT_EQ(top_shape(images("kernel_size_3d: 1 kernel_size_3d: 2 kernel_size_3d: 3 stride_3d: 1 "
                             "stride_3d: 2 stride_3d: 3 pad_3d: 0 pad_3d: 1 pad_3d: 0",
                             volume)),
            Shape({2, 3, 8, 5, 4}));
  EXPECT_EQ(top_shape(images("global_pooling: true", volume)), Shape({2, 3, 1, 1, 1}));
  EXPECT_EQ(top_shape(images("kernel_size_3d: 2 stride_3d: 2")), Shape({2, 3, 4, 4}));
}

TEST(PoolingOfVolumes, MaximumOfAVolumeAndItsMask) {
  std::vector<double> values(2 * 2 * 4);
  std::iota(values.begin(), values.end(), 0);
  values[1] = 20;  // plane 0; all others ascend
  LayerCase c{.layer = pooling("kernel_size: 2 stride: 2"),
              .bottoms = {given({1, 1, 2, 2, 4}, values)},
              .tops = 2};
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), Shape({1, 1, 1, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(20, 15));
  EXPECT_THAT(run.top(1), ElementsAre(1, 15));
}

// Of equal values the first one of the volume gets the gradient, whatever the order of the stages.
TEST(PoolingOfVolumes, TheFirstOfEqualValuesOfAVolume) {
  const std::vector<double> values = {0, 0, 0, 5, 5, 0, 0, 0};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = pooling("kernel_size: 2"), .bottoms = {given({1, 1, 2, 2, 2}, values)}},
                 {.engine = engine});
    run.forward();
    run.set_top_diff(0, {1});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 1, 0, 0, 0, 0)) << engine;
  }
}

TEST(PoolingOfVolumes, GradientsOfVolumes) {
  for (const char* window :
       {"kernel_size: 2 stride: 2", "kernel_size: 3 stride: 2 pad: 1", "global_pooling: true",
        "kernel_size_3d: 1 kernel_size_3d: 3 kernel_size_3d: 2 stride: 1"}) {
    for (const char* method : {"MAX", "AVE", "AVE avg_include_pad: false"}) {
      check_gradients(images(text("pool: ", method, " ", window), {1, 2, 4, 5, 3}));
    }
  }
  LayerCase stochastic = images("pool: STOCHASTIC kernel_size: 2 stride: 2", {1, 2, 4, 4, 3});
  stochastic.bottoms[0].low = 0.1;
  check_gradients(stochastic);
  stochastic.phase = Phase::test;
  check_gradients(stochastic);
  check_gradients(images("kernel_size: 3 stride: 2 pad: 1", {2, 3, 8}));
}

TEST(PoolingOfVolumes, EnginesOfVolumes) {
  const char* const windows[] = {
      "kernel_size: 2 stride: 2",
      "kernel_size: 3 stride: 1 pad: 1",
      "kernel_size_3d: 1 kernel_size_3d: 2 kernel_size_3d: 2 stride_3d: 1 stride_3d: 2 "
      "stride_3d: 2",
      "kernel_size_3d: 3 kernel_size_3d: 1 kernel_size_3d: 1 stride_3d: 2 stride_3d: 1 "
      "stride_3d: 1 pad_3d: 1 pad_3d: 0 pad_3d: 0",
      "kernel_size_3d: 5 kernel_size_3d: 3 kernel_size_3d: 4 stride: 2 pad: 2",
      "global_pooling: true"};
  for (const char* window : windows) {
    for (const Shape& shape : {Shape{2, 3, 5, 6, 7}, Shape{1, 21, 6, 5, 4}}) {
      for (const char* method : {"MAX", "AVE", "AVE avg_include_pad: false"}) {
        LayerCase c = images(text("pool: ", method, " ", window), shape);
        EXPECT_THAT(check_engines(c), UnorderedElementsAreArray(kPoolingFormats)) << window;
        if (method[0] != 'M') continue;
        c.tail = {"layer { type: 'ReLU' }"};
        EXPECT_THAT(check_engines(c), UnorderedElementsAreArray(kPoolingFormats)) << window;
      }
    }
  }
  for (const Shape& shape : {Shape{2, 3, 17}, Shape{1, 16, 9}}) {
    EXPECT_THAT(check_engines(images("kernel_size: 3 stride: 2", shape)),
                UnorderedElementsAreArray(kPoolingFormats));
  }
}

TEST(PoolingOfVolumes, VolumesFollowTheirShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images("kernel_size: 2 stride: 2", {2, 3, 4, 4, 4}), {.engine = engine});
    run.forward();
    run.reshape({given({1, 1, 2, 2, 2}, {1, 2, 3, 4, 8, 7, 6, 5})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(8)) << engine;
    run.set_top_diff(0, {3});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 0, 3, 0, 0, 0)) << engine;
    expect_error([&] { run.reshape({uniform({1, 1, 4, 4})}); }, {"3 spatial axes", "1x1x4x4"});
  }
}

}  // namespace
}  // namespace crema::test
