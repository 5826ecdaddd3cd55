#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

Shape flattened(const std::string& settings, const Shape& shape) {
  LayerRun run({.layer = text("layer { type: 'Flatten' flatten_param { ", settings, " } }"),
                .bottoms = {uniform(shape)}});
  run.forward();
  expect_close(run.top(0), run.bottom_values(0), {0, 1e-7}, "top");
  return run.top_blob(0).shape();
}

TEST(Flatten, Shapes) {
  EXPECT_EQ(flattened("", {2, 3, 4, 5}), (Shape{2, 60}));
  EXPECT_EQ(flattened("axis: 0 end_axis: 1", {2, 3, 4, 5}), (Shape{6, 4, 5}));
  EXPECT_EQ(flattened("axis: 1 end_axis: -2", {2, 3, 4, 5}), (Shape{2, 12, 5}));
  EXPECT_EQ(flattened("axis: -1", {2, 3}), (Shape{2, 3}));
}

TEST(Flatten, GradientsAndInPlace) {
  const LayerCase c{.layer = R"(layer { type: "Flatten" })", .bottoms = {uniform({2, 3, 4})}};
  check_gradients(c);
  check_engines(c);
  EXPECT_EQ(LayerRun(c).kernel().in_place(), InPlace::alias);
}

TEST(Flatten, Errors) {
  expect_error(
      [] {
        flattened("axis: 2 end_axis: 1", {2, 3, 4});
      },
      {"end_axis 1", "axis 2", "2x3x4"});
  expect_error([] { flattened("axis: 3", {2, 3, 4}); }, {"3", "2x3x4"});
}

}  // namespace
}  // namespace crema::test
