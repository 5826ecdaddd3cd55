#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase tile(const std::string& settings, const Shape& shape) {
  return {.layer = text("layer { type: 'Tile' tile_param { ", settings, " } }"),
          .bottoms = {uniform(shape)}};
}

TEST(Tile, RepeatsAlongAnAxis) {
  LayerCase c = tile("tiles: 2", {2, 2, 2});
  c.bottoms[0].values = {1, 2, 3, 4, 5, 6, 7, 8};
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 4, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8));
  run.set_top_diff(0, {1, 2, 3, 4, 10, 20, 30, 40, 5, 6, 7, 8, 50, 60, 70, 80});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(11, 22, 33, 44, 55, 66, 77, 88));
}

TEST(Tile, TheLastAxis) {
  LayerCase c = tile("axis: -1 tiles: 3", {2, 1});
  c.bottoms[0].values = {1, 2};
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(Tile, GradientsAndEngines) {
  for (const char* settings :
       {"tiles: 3", "axis: 0 tiles: 2", "axis: 2 tiles: 5", "axis: -1 tiles: 17", "tiles: 1"}) {
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{1, 1, 1}, Shape{3, 5, 1}, Shape{1, 7, 3}}) {
      check_gradients(tile(settings, shape));
      check_engines(tile(settings, shape));
    }
  }
  check_engines(tile("axis: 0 tiles: 3", {70001}));
  check_engines(tile("axis: 1 tiles: 301", {99, 1}), {1e-4, 1e-4});
}

TEST(Tile, OneTileIsAnAlias) {
  EXPECT_EQ(LayerRun(tile("tiles: 1", {2, 3})).kernel().in_place(), InPlace::alias);
  EXPECT_EQ(LayerRun(tile("tiles: 2", {2, 3})).kernel().in_place(), InPlace::never);
}

TEST(Tile, EmptyBatchesAndNewShapes) {
  LayerRun run(tile("tiles: 2", {2, 3}));
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}, Shape{4, 1}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{shape[0], 2 * shape[1]}));
  }
}

TEST(Tile, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(c); }, words);
  };
  refuses(tile("", {2, 3}), {"tiles is missing"});
  refuses(tile("tiles: 0", {2, 3}), {"tiles is 0"});
  refuses(tile("tiles: -3", {2, 3}), {"tiles is -3"});
  refuses(tile("axis: 2 tiles: 3", {2, 3}), {"2", "2x3"});
}

}  // namespace
}  // namespace crema::test
