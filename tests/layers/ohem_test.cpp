// The layers with which R-FCN chooses hard examples: losses of each region, and BoxAnnotatorOHEM.
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

TEST(SmoothL1LossOHEM, TheLossOfEachPosition) {
  // Channels beside each other hold one position: (2, 2, 1, 2).
  LayerRun run({.layer = "layer { type: 'SmoothL1LossOHEM' }",
                .bottoms = {given({2, 2, 1, 2}, {0.5, 3, -1, 0, 2, 0, 0, 0.25}),
                            given({2, 2, 1, 2}, std::vector<double>(8, 0)),
                            given({2, 2, 1, 2}, {1, 1, 1, 1, 0.5, 1, 1, 2})},
                .tops = 2},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top_blob(1).shape().str(), "2x1x1x2");
  EXPECT_EQ(run.top(1), (std::vector<double>{0.125 + 0.5, 2.5, 0.5, 0.125}));
  EXPECT_EQ(run.top(0)[0], 3.75 / 4);
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{0.125, 0.25, -0.25, 0, 0.125, 0, 0, 0.25}));
}

TEST(SmoothL1LossOHEM, GradientsAndNormalizations) {
  const GradientCheck check{.step = 1e-6, .tolerance = 1e-5};
  for (const auto& [normalization, divisor] :
       std::vector<std::pair<std::string, double>>{{"VALID", 6},
                                                   {"FULL", 6},
                                                   {"BATCH_SIZE", 3},
                                                   {"NONE", 1},
                                                   {"PRE_FIXED pre_fixed_normalizer: 128", 128}}) {
    const std::string layer =
        "layer { type: 'SmoothL1LossOHEM' smooth_l1_loss_param { sigma: 1.5 } "
        "loss_param { normalization: " +
        normalization + " } }";
    SCOPED_TRACE(layer);
    const LayerCase c{
        .layer = layer,
        .bottoms = {uniform({3, 4, 1, 2}), uniform({3, 4, 1, 2}), uniform({3, 4, 1, 2}, 0, 2)},
        .tops = 2};
    check_gradients(c, check);
    check_engines(c);
    LayerRun run(c, {.dtype = DType::f64});
    run.forward();
    double all = 0;
    for (const double loss : run.top(1)) all += loss;
    EXPECT_NEAR(run.top(0)[0], all / divisor, 1e-12);
  }
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'SmoothL1LossOHEM' }",
                  .bottoms = {uniform({3}), uniform({3})}});
      },
      {"axis of channels"});
}

TEST(SoftmaxWithLossOHEM, TheLossOfEachPosition) {
  LayerRun run({.layer = "layer { type: 'SoftmaxWithLossOHEM' loss_param { ignore_label: -1 "
                         "normalization: PRE_FIXED pre_fixed_normalizer: 4 } }",
                .bottoms = {given({3, 2}, {0, 0, 1, 3, 2, -1}), given({3, 1}, {1, 0, -1})},
                .tops = 3},
               {.dtype = DType::f64});
  run.forward();
  const std::vector<double> losses = {std::log(2), std::log1p(std::exp(2)), 0};
  EXPECT_EQ(run.top_blob(2).shape().str(), "3x1");
  EXPECT_THAT(run.top(2), Pointwise(DoubleNear(1e-12), losses));
  EXPECT_NEAR(run.top(0)[0], (losses[0] + losses[1]) / 4, 1e-12);
}

TEST(SoftmaxWithLossOHEM, GradientsAndEngines) {
  const LayerCase c{.layer =
                        "layer { type: 'SoftmaxWithLossOHEM' loss_weight: 1 loss_weight: 0 "
                        "loss_weight: 0 }",
                    .bottoms = {uniform({4, 5, 2, 1}, -2, 2), labels({4, 1, 2, 1}, 5)},
                    .tops = 3};
  check_gradients(c);
  check_engines(c);
  // Probabilities as labels: a position has no class axis.
  LayerRun run({.layer = "layer { type: 'SoftmaxWithLossOHEM' }",
                .bottoms = {given({1, 2, 2}, {0, 1, 0, 3}), given({1, 2, 2}, {1, 0.5, 0, 0.5})},
                .tops = 3},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top_blob(2).shape().str(), "1x1x2");
  EXPECT_THAT(run.top(2), Pointwise(DoubleNear(1e-12),
                                    std::vector<double>{std::log(2), std::log1p(std::exp(2)) - 1}));
}

LayerCase annotator(const std::string& settings, std::vector<double> losses) {
  return {
      .layer = "layer { type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { " + settings + " } }",
      .bottoms = {given({5, 5}, {0, 1, 1, 2, 2, 1, 1, 1, 2, 2, 0, 1, 1, 2, 2,  //
                                 0, 1, 1, 2, 2, 1, 1, 1, 2, 2}),
                  given({5, 1}, std::move(losses)), given({5, 1}, {3, 4, 5, 6, 7}),
                  given({5, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1})},
      .tops = 2};
}

TEST(BoxAnnotatorOHEM, KeepsTheGreatestLossesOfEachImage) {
  LayerRun run(annotator("roi_per_img: 2", {1, 5, 3, 2, 0}), {.dtype = DType::f64});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{-1, 4, 5, 6, 7}));
  EXPECT_EQ(run.top(1), (std::vector<double>{0, 0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}));
  // Equal losses: the lower region. NaN stays, to be seen.
  LayerRun equal(annotator("roi_per_img: 1 ignore_label: 255", {2, 2, 2, 2, 2}));
  equal.forward();
  EXPECT_EQ(equal.top(0), (std::vector<double>{3, 4, 255, 255, 255}));
  LayerRun nan(annotator("roi_per_img: 1", {9, 2, 9, std::numeric_limits<double>::quiet_NaN(), 3}));
  nan.forward();
  EXPECT_EQ(nan.top(0), (std::vector<double>{-1, -1, -1, 6, 7}));
}

TEST(BoxAnnotatorOHEM, PositionsOfMaps) {
  // One item with two positions, of images 0 and 1.
  LayerRun run({.layer = "layer { type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: "
                         "1 } }",
                .bottoms = {given({2, 5, 1, 2}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                                 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}),
                            given({2, 1, 1, 2}, {1, 4, 2, 3}), given({2, 1, 1, 2}, {5, 6, 7, 8}),
                            given({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                .tops = 2});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{-1, 6, 7, -1}));
  EXPECT_EQ(run.top(1), (std::vector<double>{0, 2, 0, 4, 5, 0, 7, 0}));
  check_engines(annotator("roi_per_img: 2", {1, 5, 3, 2, 0}));
}

TEST(BoxAnnotatorOHEM, Errors) {
  expect_error([] { LayerRun(annotator("roi_per_img: 0", {1, 2, 3, 4, 5})); }, {"roi_per_img 0"});
  LayerCase c = annotator("roi_per_img: 1", {1, 2, 3, 4, 5});
  c.bottoms[0].values[5] = -1;
  expect_error(
      [&] {
        LayerRun run(c);
        run.forward();
      },
      {"region 1", "image -1"});
  c.bottoms[1] = uniform({4, 1});
  expect_error([&] { LayerRun run(c); }, {"bottom1", "4x1", "5 regions"});
  c.bottoms[1] = uniform({5, 1});
  c.bottoms[3] = uniform({5});
  expect_error([&] { LayerRun run(c); }, {"bottom3", "weights"});
}

TEST(OHEM, TheTrioOfRFCN) {
  const std::string no_gradient = " propagate_down: false propagate_down: false ";
  Context context;
  Net net(
      net_param(
          "layer { name: 'in' type: 'Input' top: 'rois' top: 'scores' top: 'labels' top: 'box' "
          "top: 'target' top: 'weight' input_param { shape { dim: 3 dim: 5 } shape { dim: 3 dim: "
          "2 } shape { dim: 3 } shape { dim: 3 dim: 4 } shape { dim: 3 dim: 4 } shape { dim: 3 "
          "dim: 4 } } } "
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'scores' top: 'cls_score' "
          "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
          "layer { name: 'pc' type: 'SoftmaxWithLossOHEM' bottom: 'cls_score' bottom: 'labels' "
          "top: 'tc' top: 'tp' top: 'cls' loss_weight: 0 loss_weight: 0 loss_weight: 0" +
          no_gradient +
          "} layer { name: 'pb' type: 'SmoothL1LossOHEM' bottom: 'box' bottom: 'target' bottom: "
          "'weight' top: 'tb' top: 'bbox' loss_weight: 0 loss_weight: 0 propagate_down: false" +
          no_gradient +
          "} layer { name: 'bb' type: 'Flatten' bottom: 'bbox' top: 'bbox_flat' flatten_param { "
          "axis: 0 } propagate_down: false } "
          "layer { name: 'all' type: 'Eltwise' bottom: 'cls' bottom: 'bbox_flat' top: 'loss_each'" +
          no_gradient +
          "} layer { name: 'ann' type: 'BoxAnnotatorOHEM' bottom: 'rois' bottom: 'loss_each' "
          "bottom: 'labels' bottom: 'weight' top: 'labels_ohem' top: 'weights_ohem' "
          "box_annotator_ohem_param { roi_per_img: 1 }" +
          no_gradient + no_gradient +
          "} layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'cls_score' bottom: "
          "'labels_ohem' top: 'loss_cls' loss_param { ignore_label: -1 } } "
          "layer { name: 'silence' type: 'Silence' bottom: 'tc' bottom: 'tp' bottom: 'tb' bottom: "
          "'weights_ohem' }"),
      context, {.keep = {"labels_ohem"}});
  const auto fill = [&](const char* name, std::vector<float> values) {
    std::copy(values.begin(), values.end(), net.input(name).overwrite<float>());
  };
  fill("rois", {0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1});
  fill("scores", {0, 0, 0, 0, 0, 0});
  fill("labels", {0, 1, 0});
  fill("box", std::vector<float>(12, 0));
  fill("target", {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  fill("weight", std::vector<float>(12, 1));
  const double loss = net.forward();
  EXPECT_NEAR(loss, std::log(2), 1e-6);
  net.backward();
  // Region 1 has the greatest loss, of its box.
  const auto chosen = values_of(net.blob("labels_ohem").data);
  EXPECT_EQ(chosen, (std::vector<double>{-1, 1, -1}));
}

}  // namespace
}  // namespace crema::test
