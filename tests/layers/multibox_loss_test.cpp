// MultiBoxLoss. Further values: the cases multiboxloss_* and net_ssd_train_0 of tests/golden/ssd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "layers/multibox_loss/score_kernels.hpp"
#include "layers/softmax/softmax_kernels.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;

std::string layer(const std::string& settings, const std::string& more = "") {
  return "layer { type: 'MultiBoxLoss' multibox_loss_param { " + settings + " } " + more + " }";
}

/// Twelve priors; the last three reach over the border.
constexpr int64_t kPriors = 12;
Input priors() {
  std::vector<double> values;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      const double x = 0.06 + 0.23 * column, y = 0.05 + 0.3 * row;
      const double shift = row == 2 && column > 0 ? 0.25 : 0;
      values.insert(values.end(), {x, y + shift, x + 0.2 + 0.01 * row, y + 0.25 + shift});
    }
  }
  for (int64_t p = 0; p < kPriors; ++p) values.insert(values.end(), {0.1, 0.15, 0.2, 0.25});
  return given({1, 2, 4 * kPriors}, values);
}

/// Image 0 has two boxes, image 1 none, image 2 two of which one is difficult.
Input truths() {
  return given({1, 1, 6, 8}, {0,  1, 0, 0.08, 0.07, 0.30, 0.31, 0,  //
                              0,  2, 0, 0.50, 0.33, 0.70, 0.66, 0,  //
                              2,  2, 0, 0.27, 0.06, 0.51, 0.30, 1,  //
                              -1, 0, 0, 0,    0,    0,    0,    0,  //
                              2,  1, 0, 0.30, 0.88, 0.52, 1.10, 0,  //
                              -1, 0, 0, 0,    0,    0,    0,    0});
}

LayerCase usual_case(const std::string& settings, const std::string& more = "", int classes = 3,
                     int locations = 1) {
  return {.layer = layer(settings, more),
          .bottoms = {uniform({3, kPriors * 4 * locations}, -0.5, 0.5),
                      uniform({3, kPriors * classes}, -3, 3), priors(), truths()}};
}

double loss_of(const LayerCase& c) {
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  return run.top(0)[0];
}

std::vector<double> slice(const std::vector<double>& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

// The second derivative of smooth L1 jumps, and edges of boxes cross the border.
constexpr GradientCheck kCheck{.step = 1e-6, .tolerance = 2e-5};

TEST(MultiBoxLoss, GradientsOfLossesCodesAndLocations) {
  for (const char* location : {"SMOOTH_L1", "L2"}) {
    for (const char* score : {"SOFTMAX", "LOGISTIC"}) {
      for (const char* code : {"CORNER", "CENTER_SIZE", "CORNER_SIZE"}) {
        for (const char* in_target : {"false", "true"}) {
          const std::string settings = text(
              "num_classes: 3 overlap_threshold: 0.4 loc_weight: 1.5 loc_loss_type: ", location,
              " conf_loss_type: ", score, " code_type: ", code,
              " encode_variance_in_target: ", in_target);
          SCOPED_TRACE(settings);
          check_gradients(usual_case(settings), kCheck);
          check_gradients(usual_case(settings + " mining_type: NONE share_location: false "
                                                "background_label_id: 0",
                                     "", 3, 3),
                          kCheck);
        }
      }
    }
  }
}

TEST(MultiBoxLoss, GradientsOfMatchingAndMining) {
  for (const char* mining :
       {"mining_type: NONE", "neg_pos_ratio: 1.5", "mining_type: HARD_EXAMPLE sample_size: 4",
        "mining_type: HARD_EXAMPLE sample_size: 4 nms_param { nms_threshold: 0.1 }",
        "nms_param { nms_threshold: 0.1 top_k: 9 } use_prior_for_nms: true"}) {
    for (const char* matching :
         {"", "match_type: BIPARTITE", "use_prior_for_matching: false overlap_threshold: 0.3",
          "bp_inside: true", "bp_inside: true use_prior_for_matching: false overlap_threshold: 0.2",
          "ignore_cross_boundary_bbox: true", "use_difficult_gt: false",
          "ignore_difficult_gt: true"}) {
      const std::string settings =
          text("num_classes: 3 code_type: CENTER_SIZE ", mining, " ", matching);
      SCOPED_TRACE(settings);
      check_gradients(usual_case(settings), kCheck);
    }
  }
  check_gradients(usual_case("num_classes: 3 mining_type: NONE share_location: false "
                             "use_prior_for_matching: false overlap_threshold: 0.3",
                             "", 3, 3),
                  kCheck);
  check_gradients(usual_case("num_classes: 3 mining_type: NONE share_location: false "
                             "use_prior_for_matching: false overlap_threshold: 0.3 "
                             "conf_loss_type: LOGISTIC background_label_id: 4294967295",
                             "", 3, 3),
                  kCheck);
}

TEST(MultiBoxLoss, GradientsOfNormalizations) {
  for (const char* normalization :
       {"VALID", "FULL", "BATCH_SIZE", "NONE", "PRE_FIXED pre_fixed_normalizer: 3"}) {
    const std::string loss =
        text("loss_param { normalization: ", normalization, " } loss_weight: 2");
    SCOPED_TRACE(loss);
    check_gradients(usual_case("num_classes: 3", loss), kCheck);
  }
}

TEST(MultiBoxLoss, EveryEngine) {
  for (const char* settings :
       {"num_classes: 3", "num_classes: 3 conf_loss_type: LOGISTIC",
        "num_classes: 3 mining_type: HARD_EXAMPLE sample_size: 5 code_type: CENTER_SIZE",
        "num_classes: 3 use_prior_for_matching: false mining_type: NONE"}) {
    SCOPED_TRACE(settings);
    check_engines(usual_case(settings));
  }
}

/// One image, two priors that do not overlap; the box is prior 0 moved right by a tenth of its
/// side.
LayerCase small_case(const std::string& settings, std::vector<double> scores) {
  return {.layer = layer("num_classes: 2 " + settings),
          .bottoms = {given({1, 8}, {0.3, -2, 0.1, 0.2, 5, 5, 5, 5}), given({1, 4}, scores),
                      given({1, 2, 8}, {0.1, 0.1, 0.3, 0.3, 0.6, 0.6, 0.8, 0.8,  //
                                        0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2}),
                      given({1, 1, 1, 8}, {0, 1, 0, 0.12, 0.1, 0.32, 0.3, 0})}};
}

TEST(MultiBoxLoss, ValuesByHand) {
  const auto smooth = [](double d) { return std::abs(d) < 1 ? d * d / 2 : std::abs(d) - 0.5; };
  const auto softmax = [](double own, double other) { return std::log1p(std::exp(other - own)); };
  // CENTER_SIZE: x of the target is 0.1 / variance 0.1, the others 0.
  const double moved = smooth(0.3 - 1) + smooth(-2) + smooth(0.1) + smooth(0.2);
  // CORNER: xmin and xmax of the target are 0.02 over their variances.
  const double corners = smooth(0.3 - 0.2) + smooth(-2) + smooth(0.1 - 0.1) + smooth(0.2);
  const double positive = softmax(2, -1), negative = softmax(0.5, 1.5);
  const std::vector<double> scores = {-1, 2, 0.5, 1.5};
  const auto expect = [&](const std::string& settings, double expected) {
    LayerRun run(small_case(settings, scores), {.dtype = DType::f64});
    run.forward();
    EXPECT_NEAR(run.top(0)[0], expected, 1e-7) << settings;  // variances are doubles, weights f32
  };
  expect("code_type: CENTER_SIZE", moved + positive + negative);
  expect("", corners + positive + negative);
  expect("code_type: CENTER_SIZE loc_weight: 2", 2 * moved + positive + negative);
  expect("code_type: CENTER_SIZE neg_pos_ratio: 0.5", moved + positive);
  expect("code_type: CENTER_SIZE neg_overlap: 0", moved + positive);
  expect("code_type: CENTER_SIZE mining_type: NONE", moved + positive + negative);
  expect("code_type: CENTER_SIZE do_neg_mining: false", moved + positive + negative);
  expect("code_type: CENTER_SIZE mining_type: HARD_EXAMPLE sample_size: 1", moved + positive);
  expect("loc_loss_type: L2", (0.01 + 4 + 0 + 0.04) / 2 + positive + negative);
  // Nothing is divided by the variance in the target; the difference is.
  expect("code_type: CENTER_SIZE encode_variance_in_target: true",
         smooth((0.3 - 0.1) / 0.1) + smooth(-2 / 0.1) + smooth(0.1 / 0.2) + smooth(0.2 / 0.2) +
             positive + negative);
}

TEST(MultiBoxLoss, TheGradientIsDividedByAVarianceInTheTarget) {
  LayerCase c = small_case("code_type: CENTER_SIZE encode_variance_in_target: true", {0, 0, 0, 0});
  c.bottoms[0].values = {0.15, 0.05, 0.1, -0.1, 5, 5, 5, 5};
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  run.backward();
  // (prediction - target) / variance^2
  expect_close(run.bottom_diff(0), {5, 5, 2.5, -2.5, 0, 0, 0, 0}, {1e-6, 1e-6}, "diff");
}

TEST(MultiBoxLoss, PicturesWithoutBoxesAddNothingUnlessAllPriorsCount) {
  const auto with_empty = [](const std::string& settings) {
    LayerCase c = usual_case(settings);
    LayerRun run(c, {.dtype = DType::f64});
    run.forward();
    run.backward();
    return slice(run.bottom_diff(1), kPriors * 3, kPriors * 3);  // of image 1
  };
  EXPECT_THAT(with_empty("num_classes: 3"), Each(0));
  EXPECT_THAT(with_empty("num_classes: 3 mining_type: HARD_EXAMPLE"), Each(0));
  EXPECT_THAT(with_empty("num_classes: 3 mining_type: NONE"), Each(testing::Ne(0)));
}

TEST(MultiBoxLoss, NothingIsKeptFromTheBatchBefore) {
  for (const char* settings : {"num_classes: 3", "num_classes: 3 mining_type: HARD_EXAMPLE"}) {
    LayerRun run(usual_case(settings), {.dtype = DType::f64});
    run.forward();
    run.backward();
    const double loss = run.top(0)[0];
    const std::vector<double> diff = run.bottom_diff(0);
    run.forward();
    run.forward();
    run.backward();
    EXPECT_EQ(run.top(0)[0], loss);
    EXPECT_EQ(run.bottom_diff(0), diff);
    const std::vector<double> boxes = run.bottom_values(3);
    run.bottom_values(3).assign(boxes.size(), -1);
    run.forward();
    run.backward();
    EXPECT_EQ(run.top(0)[0], 0);
    EXPECT_THAT(run.bottom_diff(0), Each(0));
    EXPECT_THAT(run.bottom_diff(1), Each(0));
    run.bottom_values(3) = boxes;
    run.forward();
    EXPECT_EQ(run.top(0)[0], loss);
  }
}

TEST(MultiBoxLoss, LogisticTargetsWithoutMining) {
  // The gradient is sigmoid(x) - target; the targets of later images lie behind those of the first.
  for (const int background : {0, 2}) {
    LayerCase c = usual_case(text("num_classes: 4 mining_type: NONE conf_loss_type: LOGISTIC "
                                  "background_label_id: ",
                                  background),
                             "loss_param { normalization: NONE }", 4);
    if (background == 2) {
      for (double& value : c.bottoms[3].values) value = value == 2 ? 3 : value;  // labels, images
      c.bottoms[3].values[2 * 8] = c.bottoms[3].values[4 * 8] = 2;
    }
    LayerRun run(c, {.dtype = DType::f64});
    run.forward();
    run.backward();
    const std::vector<double> diff = run.bottom_diff(1);
    std::vector<double> targets(diff.size());
    for (size_t i = 0; i < diff.size(); ++i)
      targets[i] = std::round((1 / (1 + std::exp(-run.bottom_values(1)[i])) - diff[i]) * 1e6) / 1e6;
    std::vector<double> expected(diff.size());
    const int second = background == 2 ? 3 : 2;
    const auto at = [&](int image, int prior, int label) -> double& {
      return expected[static_cast<size_t>((image * kPriors + prior) * 4 + label)];
    };
    at(0, 0, 1) = at(0, 6, second) = at(2, 1, second) = at(2, 9, 1) = 1;
    EXPECT_EQ(targets, expected) << background;
  }
}

TEST(MultiBoxLoss, LogisticNegativesAreOfTheBackgroundClassIfThereIsOne) {
  // Scores that make prior 1 the negative of mining.
  const auto diff = [](const std::string& settings) {
    LayerRun run(small_case("conf_loss_type: LOGISTIC " + settings, {0, 0, 0, 0}),
                 {.dtype = DType::f64});
    run.forward();
    run.backward();
    return run.bottom_diff(1);
  };
  EXPECT_EQ(diff(""), (std::vector<double>{0.5, -0.5, -0.5, 0.5}));
  EXPECT_EQ(diff("mining_type: NONE"), (std::vector<double>{0.5, -0.5, 0.5, 0.5}));
  // 2^32 - 1 is how -1 is written: no class is background.
  EXPECT_EQ(diff("background_label_id: 4294967295"), (std::vector<double>{0.5, -0.5, 0.5, 0.5}));
}

TEST(MultiBoxLoss, OneLabelForAllObjects) {
  for (const char* mining : {"MAX_NEGATIVE", "HARD_EXAMPLE", "NONE"}) {
    for (const char* type : {"SOFTMAX", "LOGISTIC"}) {
      const std::string settings =
          text("num_classes: 2 mining_type: ", mining, " conf_loss_type: ", type);
      LayerCase all_one = usual_case(settings, "", 2);
      for (size_t row = 0; row < 6; ++row) {
        double& label = all_one.bottoms[3].values[row * 8 + 1];
        label = label > 0 ? 1 : label;
      }
      LayerCase mapped = usual_case(settings + " map_object_to_agnostic: true", "", 2);
      mapped.bottoms[3].values[1] = 17;  // beyond the classes
      EXPECT_EQ(loss_of(mapped), loss_of(all_one)) << settings;
    }
  }
}

TEST(MultiBoxLoss, HardExamplesAreNoIgnoredPriors) {
  // Priors 9 to 11 cross the border and have by far the largest losses.
  LayerCase c = usual_case(
      "num_classes: 3 mining_type: HARD_EXAMPLE sample_size: 3 ignore_cross_boundary_bbox: true");
  std::vector<double> scores(3 * kPriors * 3, 0);
  for (const int64_t image : {0, 2}) {
    for (int64_t p = 9; p < kPriors; ++p)
      scores[static_cast<size_t>((image * kPriors + p) * 3 + 1)] = 20;
  }
  c.bottoms[1] = given({3, kPriors * 3}, scores);
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  run.backward();
  const std::vector<double> diff = run.bottom_diff(1);
  int counted = 0;
  for (int64_t p = 0; p < kPriors; ++p) {
    const bool counts = diff[static_cast<size_t>(p * 3)] != 0;
    EXPECT_FALSE(counts && p >= 9) << p;
    counted += counts ? 1 : 0;
  }
  EXPECT_EQ(counted, 3);
}

TEST(MultiBoxLoss, SuppressionWithoutTopKConsidersAll) {
  for (const char* mining : {"", " mining_type: HARD_EXAMPLE sample_size: 5"}) {
    const auto loss = [&](const char* top_k) {
      return loss_of(usual_case(text("num_classes: 3 use_prior_for_nms: true", mining,
                                     " nms_param { nms_threshold: 0.9 ", top_k, " }")));
    };
    EXPECT_EQ(loss(""), loss("top_k: -1"));
    EXPECT_EQ(loss(""), loss("top_k: 12"));
    // Priors that hardly overlap: nothing is suppressed.
    EXPECT_EQ(loss(""), loss_of(usual_case(text("num_classes: 3", mining))));
    EXPECT_NE(loss(""), loss("top_k: 1"));
  }
}

TEST(MultiBoxLoss, AmongEqualLossesTheLowerPriorCounts) {
  LayerCase c = usual_case("num_classes: 3 neg_pos_ratio: 1");
  c.bottoms[1] = given({3, kPriors * 3}, std::vector<double>(3 * kPriors * 3, 0));
  LayerRun run(c);
  run.forward();
  run.backward();
  // Image 0: priors 0 and 6 are matched, so two negatives: the first of the others.
  std::vector<int> counted;
  for (int p = 0; p < kPriors; ++p) {
    if (run.bottom_diff(1)[static_cast<size_t>(p * 3)] != 0) counted.push_back(p);
  }
  EXPECT_THAT(counted, testing::ElementsAre(0, 1, 2, 6));
}

TEST(MultiBoxLoss, DifficultBoxes) {
  const auto diff_of_prior_1 = [](const std::string& settings) {
    LayerRun run(usual_case("num_classes: 3 " + settings), {.dtype = DType::f64});
    run.forward();
    run.backward();
    return slice(run.bottom_diff(1), (2 * kPriors + 1) * 3, 3);  // image 2
  };
  const auto is_positive = [](const std::vector<double>& diff) { return diff[2] < 0; };
  EXPECT_TRUE(is_positive(diff_of_prior_1("mining_type: NONE")));
  const auto dropped = diff_of_prior_1("mining_type: NONE use_difficult_gt: false");
  EXPECT_LT(dropped[0], 0);  // background
  EXPECT_THAT(diff_of_prior_1("mining_type: NONE ignore_difficult_gt: true"), Each(0));
  EXPECT_THAT(diff_of_prior_1("ignore_difficult_gt: true neg_pos_ratio: 20"), Each(0));
  EXPECT_THAT(diff_of_prior_1("ignore_difficult_gt: true mining_type: HARD_EXAMPLE"), Each(0));
}

TEST(MultiBoxLoss, EdgesOutsideOfTheImageHaveNoLossWithBpInside) {
  // Prior 9 reaches over the lower border, and is matched in image 2.
  const auto diff = [](const std::string& settings) {
    LayerRun run(usual_case("num_classes: 3 " + settings), {.dtype = DType::f64});
    run.forward();
    run.backward();
    return slice(run.bottom_diff(0), (2 * kPriors + 9) * 4, 4);
  };
  EXPECT_THAT(diff(""), Each(testing::Ne(0)));
  const auto inside = diff("bp_inside: true");
  EXPECT_THAT(slice(inside, 0, 3), Each(testing::Ne(0)));
  EXPECT_EQ(inside[3], 0);
}

TEST(MultiBoxLoss, PropagateDownFalseLeavesALossOut) {
  const double both = loss_of(usual_case("num_classes: 3"));
  const auto without = [](const char* loc, const char* conf) {
    LayerCase c =
        usual_case("num_classes: 3", text("propagate_down: ", loc, " propagate_down: ", conf,
                                          " propagate_down: false "
                                          "propagate_down: false"));
    return loss_of(c);
  };
  EXPECT_EQ(without("true", "true"), both);
  EXPECT_NEAR(without("true", "false") + without("false", "true"), both, 1e-12);
  EXPECT_GT(without("true", "false"), 0);
}

TEST(MultiBoxLoss, WorksUnderForceBackward) {
  const auto gradients = [](const char* force) {
    NetParameter param = net_param(
        std::string(force) +
        "layer { name: 'x' type: 'Input' top: 'x' top: 'c' top: 'p' top: 't' "
        "input_param { shape { dim: 3 dim: 48 } shape { dim: 3 dim: 36 } shape { dim: 1 dim: 2 "
        "dim: 48 } "
        "shape { dim: 1 dim: 1 dim: 6 dim: 8 } } } "
        "layer { name: 's' type: 'Scale' bottom: 'x' top: 'loc' } "
        "layer { name: 'l' type: 'MultiBoxLoss' bottom: 'loc' bottom: 'c' bottom: 'p' bottom: 't' "
        "top: 'y' multibox_loss_param { num_classes: 3 } }");
    Context context;
    Net net(param, context, {.keep = {"y"}});
    const LayerCase c = usual_case("num_classes: 3");
    const std::vector<std::vector<double>> values = {std::vector<double>(144, 0.1),
                                                     std::vector<double>(108, 0.2),
                                                     c.bottoms[2].values, c.bottoms[3].values};
    const char* const names[] = {"x", "c", "p", "t"};
    for (size_t i = 0; i < 4; ++i) {
      float* to = net.input(names[i]).overwrite<float>();
      for (const double value : values[i]) *to++ = static_cast<float>(value);
    }
    net.forward();
    net.backward();
    return gradients_of(net);
  };
  const std::vector<double> usual = gradients("");
  EXPECT_THAT(usual, testing::Not(Each(0)));
  EXPECT_EQ(gradients("force_backward: true "), usual);
}

TEST(MultiBoxLoss, TheThreadsDoNotChangeABit) {
  const LayerCase c = usual_case("num_classes: 3 code_type: CENTER_SIZE");
  const double alone = loss_of(c);
  // Each run is one piece on a thread of another team.
  std::array<double, 5> losses{};
#pragma omp parallel for num_threads(5)
  for (int i = 0; i < 5; ++i) losses[static_cast<size_t>(i)] = loss_of(c);
  EXPECT_THAT(losses, Each(alone));
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadScope scope(threads);
    EXPECT_EQ(loss_of(c), alone) << threads;
  }
}

TEST(MultiBoxLoss, AnEmptyBatch) {
  LayerRun run({.layer = layer("num_classes: 3"),
                .bottoms = {uniform({0, kPriors * 4}), uniform({0, kPriors * 3}), priors(),
                            given({1, 1, 1, 8}, std::vector<double>(8, -1))}});
  run.forward();
  run.backward();
  EXPECT_EQ(run.top(0)[0], 0);
}

TEST(MultiBoxLoss, NaNShowsInTheLoss) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LayerCase scores = usual_case("num_classes: 3");
  scores.bottoms[1] = given({3, kPriors * 3}, std::vector<double>(3 * kPriors * 3, 0));
  scores.bottoms[1].values[4 * 3] = nan;  // a negative among others
  EXPECT_TRUE(std::isnan(loss_of(scores)));
  LayerCase locations = usual_case("num_classes: 3 use_prior_for_matching: false");
  locations.bottoms[0] = given({3, kPriors * 4}, std::vector<double>(3 * kPriors * 4, nan));
  expect_error([&] { loss_of(locations); }, {"prior 0", "image", "no number"});
}

TEST(MultiBoxLoss, WrongBottoms) {
  const auto refuses = [](size_t bottom, const Input& input,
                          std::initializer_list<std::string_view> parts) {
    LayerCase c = usual_case("num_classes: 3");
    c.bottoms[bottom] = input;
    expect_error([&] { loss_of(c); }, parts);
  };
  refuses(0, uniform({3, 44}), {"bottom0", "3x44", "12 priors", "N x 48"});
  refuses(1, uniform({3, 48}), {"bottom1", "3x48", "num_classes", "12 priors", "N x 36"});
  refuses(1, uniform({2, 36}), {"same batch size", "2x36", "3x48"});
  refuses(2, uniform({1, 1, 48}), {"bottom2", "1 x 2 x 4 P"});
  refuses(3, uniform({1, 1, 6, 5}), {"bottom3", "1 x 1 x G x 8"});
  const auto refuses_row = [&](size_t column, double value,
                               std::initializer_list<std::string_view> parts) {
    Input rows = truths();
    rows.values[2 * 8 + column] = value;
    refuses(3, rows, parts);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refuses_row(0, 3, {"row 2", "image 3", "0 to 2"});
  refuses_row(0, 0.5, {"row 2", "image 0.5"});
  refuses_row(0, nan, {"row 2", "image nan"});
  refuses_row(1, 3, {"row 2", "label 3", "[0, 3)"});
  refuses_row(1, 1.5, {"label 1.5"});
  refuses_row(1, nan, {"label nan"});
  refuses_row(1, 0, {"label 0", "background_label_id"});
  refuses_row(4, nan, {"row 2", "coordinate nan"});
  refuses_row(5, 0.1, {"row 2", "xmax", "0.1"});
  Input wrong = priors();
  wrong.values[7] = nan;
  refuses(2, wrong, {"prior box 1", "coordinate nan"});
  wrong = priors();
  wrong.values[4 * kPriors + 5] = 0;
  refuses(2, wrong, {"prior box 1", "variance 0"});
}

TEST(MultiBoxLoss, WrongSettings) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(settings);
    expect_error([&] { LayerRun run(usual_case(settings)); }, parts);
  };
  refuses("", {"num_classes 0"});
  refuses("num_classes: 3 background_label_id: 3", {"background_label_id 3", "LOGISTIC"});
  refuses("num_classes: 3 share_location: false", {"share_location", "mining_type: NONE"});
  refuses("num_classes: 3 map_object_to_agnostic: true background_label_id: 2",
          {"map_object_to_agnostic", "label 3", "0 to 2"});
  refuses("num_classes: 3 do_neg_mining: false mining_type: MAX_NEGATIVE",
          {"do_neg_mining false", "MAX_NEGATIVE"});
  refuses("num_classes: 3 overlap_threshold: 1.5", {"overlap_threshold 1.5"});
  refuses("num_classes: 3 neg_pos_ratio: -1", {"neg_pos_ratio -1"});
  refuses("num_classes: 3 neg_pos_ratio: inf", {"neg_pos_ratio inf", "finite"});
  refuses("num_classes: 3 neg_pos_ratio: nan", {"neg_pos_ratio nan", "finite"});
  refuses("num_classes: 3 neg_overlap: nan", {"neg_overlap nan"});
  refuses("num_classes: 3 loc_weight: inf", {"loc_weight inf"});
  refuses("num_classes: 3 mining_type: HARD_EXAMPLE sample_size: 0", {"sample_size 0"});
  refuses("num_classes: 3 nms_param { top_k: 0 }", {"top_k 0"});
}

}  // namespace
}  // namespace crema::test
