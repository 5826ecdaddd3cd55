// Values: the cases normalize_* of tests/golden/ssd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::vector<LayerCase> cases() {
  std::vector<LayerCase> all;
  for (const char* across : {"true", "false"}) {
    for (const bool shared : {true, false}) {
      const std::string layer =
          std::string("layer { type: 'Normalize' norm_param { across_spatial: ") + across +
          " channel_shared: " + (shared ? "true" : "false") + " } }";
      const std::vector<double> scales =
          shared ? std::vector<double>{1.5} : std::vector<double>{0.5, 1, 1.5, 2, 3};
      all.push_back({.layer = layer, .bottoms = {uniform({2, 5, 3, 4})}, .params = {scales}});
      all.push_back({.layer = layer, .bottoms = {uniform({3, 5})}, .params = {scales}});
      all.push_back({.layer = layer, .bottoms = {uniform({2, 5, 9, 17})}, .params = {scales}});
    }
  }
  return all;
}

// The gradient of the SSD fork lacks the scales in its projection term: it passes with one scale
// for all channels, and fails here.
TEST(Normalize, GradientsWithScalesThatDiffer) {
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    if (c.bottoms[0].shape.count() < 200) check_gradients(c);
  }
}

TEST(Normalize, EveryEngineAndFormat) {
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    const auto ran = check_engines(c);
    if (c.bottoms[0].shape.rank() > 2) {
      EXPECT_THAT(ran, testing::IsSupersetOf({"reference contiguous", "reference channels_last"}));
    }
  }
}

TEST(Normalize, ZerosStayZero) {
  LayerRun run({.layer = "layer { type: 'Normalize' }", .bottoms = {given({1, 3}, {0, 0, 0})}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{0, 0, 0}));
  run.backward();
  for (const double d : run.bottom_diff(0)) EXPECT_TRUE(std::isfinite(d));
}

TEST(Normalize, EmptyBatches) {
  for (const char* across : {"true", "false"}) {
    LayerRun run({.layer = std::string("layer { type: 'Normalize' norm_param { across_spatial: ") +
                           across + " } }",
                  .bottoms = {uniform({0, 3, 2, 2})}});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).count(), 0);
  }
}

TEST(Normalize, WrongSettings) {
  expect_error(
      [] { LayerRun({.layer = "layer { type: 'Normalize' }", .bottoms = {uniform({4})}}); },
      {"channels", "4"});
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'Normalize' norm_param { eps: -1 } }",
                  .bottoms = {uniform({2, 3})}});
      },
      {"eps -1"});
  LayerRun run({.layer = "layer { type: 'Normalize' norm_param { channel_shared: false } }",
                .bottoms = {uniform({2, 3})}});
  expect_error([&] { run.reshape({uniform({2, 4})}); }, {"the scales, 3", "2x4"});
}

}  // namespace
}  // namespace crema::test
