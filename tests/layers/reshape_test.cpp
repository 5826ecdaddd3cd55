#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

LayerCase reshape(const std::string& settings, const Shape& shape) {
  return {.layer = text("layer { type: 'Reshape' reshape_param { ", settings, " } }"),
          .bottoms = {uniform(shape)}};
}

Shape reshaped(const std::string& settings, const Shape& shape) {
  LayerRun run(reshape(settings, shape));
  run.forward();
  expect_close(run.top(0), run.bottom_values(0), {0, 1e-7}, "top");
  return run.top_blob(0).shape();
}

TEST(Reshape, Shapes) {
  EXPECT_EQ(reshaped("shape { dim: 0 dim: -1 }", {2, 3, 4}), (Shape{2, 12}));
  EXPECT_EQ(reshaped("shape { dim: -1 dim: 0 dim: 2 }", {2, 3, 4}), (Shape{4, 3, 2}));
  EXPECT_EQ(reshaped("shape { dim: 24 }", {2, 3, 4}), (Shape{24}));
  EXPECT_EQ(reshaped("shape { dim: 6 dim: 2 } axis: 1", {2, 3, 4}), (Shape{2, 6, 2}));
  EXPECT_EQ(reshaped("shape { dim: -1 } axis: 1 num_axes: 2", {2, 3, 4, 5}), (Shape{2, 12, 5}));
  EXPECT_EQ(reshaped("shape { dim: 2 dim: 2 } axis: -2", {2, 3, 4}), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(reshaped("shape { dim: 1 } num_axes: 0", {2, 3}), (Shape{1, 2, 3}));
  EXPECT_EQ(reshaped("shape { dim: 1 dim: 1 } axis: -1", {2, 3}), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(reshaped("shape {} axis: 1", {2, 1, 1}), (Shape{2}));
  EXPECT_EQ(reshaped("", {1}), Shape{});
  EXPECT_EQ(reshaped("shape { dim: 1 dim: 1 }", {}), (Shape{1, 1}));
  // 0 may stand for an axis behind those that are replaced.
  EXPECT_EQ(reshaped("shape { dim: 2 dim: 0 dim: -1 } num_axes: 1", {12, 3, 1}),
            (Shape{2, 3, 2, 3, 1}));
}

TEST(Reshape, EmptyBatches) {
  EXPECT_EQ(reshaped("shape { dim: 0 dim: -1 }", {0, 3, 4}), (Shape{0, 12}));
  EXPECT_EQ(reshaped("shape { dim: -1 dim: 6 }", {0, 3, 4}), (Shape{0, 6}));
  EXPECT_EQ(reshaped("shape { dim: -1 } axis: 1", {0, 3, 4}), (Shape{0, 12}));
}

TEST(Reshape, GradientsAndInPlace) {
  const LayerCase c = reshape("shape { dim: 0 dim: 2 dim: -1 }", {2, 3, 4});
  check_gradients(c);
  check_engines(c);
  EXPECT_EQ(LayerRun(c).kernel().in_place(), InPlace::alias);
}

TEST(Reshape, FollowsNewShapes) {
  LayerRun run(reshape("shape { dim: 0 dim: -1 }", {2, 3, 4}));
  run.reshape({uniform({5, 2, 2})});
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{5, 4}));
  expect_error([&] { run.reshape({uniform({})}); }, {"dimension 0", "axis 0", "0 axes"});
}

TEST(Reshape, Errors) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(reshape(settings, {2, 3, 4})); }, words);
  };
  refuses("shape { dim: -1 dim: -1 }", {"2 dimensions of -1"});
  refuses("shape { dim: -2 }", {"dimension -2"});
  refuses("shape { dim: 5 dim: -1 }", {"'bottom0' (2x3x4)", "24 values", "5 values"});
  refuses("shape { dim: 5 dim: 5 }", {"5x5, 25 values", "2x3x4", "24 values", "-1"});
  refuses("shape { dim: 2 dim: 3 dim: 4 dim: 0 }", {"dimension 3", "axis 3", "3 axes"});
  refuses("axis: 4", {"axis 4", "3 axes", "2x3x4"});
  refuses("axis: -5", {"axis -5", "2x3x4"});
  refuses("axis: 2 num_axes: 2", {"axis 2", "num_axes 2", "2x3x4"});
  refuses("axis: 1 num_axes: 2147483647", {"axis 1", "num_axes 2147483647", "2x3x4"});
  refuses("num_axes: -2", {"num_axes -2"});
  refuses("shape { dim: 24 } pixelshuffler: 2", {"pixelshuffler 2"});
  refuses("shape { dim: 4294967296 dim: 4294967296 dim: -1 }", {"does not fit 64 bits"});
}

}  // namespace
}  // namespace crema::test
