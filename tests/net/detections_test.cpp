// Numbers of classes of detection layers that do not fit the layers before them, though the shapes
// do.
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "model/text_format.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

using test::net_param;

/// Twelve prior boxes of four classes: 48 confidences, which rows of 3 divide, too.
std::string detector(const std::string& rows, const std::string& settings = "num_classes: 4") {
  return R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "map" type: "Pooling" bottom: "data" top: "map" pooling_param { pool: AVE kernel_size: 4 stride: 4 } }
layer { name: "prior" type: "PriorBox" bottom: "map" bottom: "data" top: "prior" prior_box_param { min_size: 2 max_size: 4 aspect_ratio: 2 flip: false } }
layer { name: "loc" type: "Convolution" bottom: "map" top: "loc" convolution_param { num_output: 12 kernel_size: 1 } }
layer { name: "loc_perm" type: "Permute" bottom: "loc" top: "loc_perm" permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "loc_flat" type: "Flatten" bottom: "loc_perm" top: "loc_flat" }
layer { name: "conf" type: "Convolution" bottom: "map" top: "conf" convolution_param { num_output: 12 kernel_size: 1 } }
layer { name: "conf_perm" type: "Permute" bottom: "conf" top: "conf_perm" permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "conf_all" type: "Flatten" bottom: "conf_perm" top: "conf_all" }
)" + rows +
         R"(
layer { name: "out" type: "DetectionOutput" bottom: "loc_flat" bottom: "conf_flat" bottom: "prior" top: "out" detection_output_param { )" +
         settings + " } }\n";
}

std::string rows_of(int classes, int axis = 2) {
  return text(
      "layer { name: 'conf_rows' type: 'Reshape' bottom: 'conf_all' top: 'conf_rows' "
      "reshape_param { shape { dim: 0 dim: -1 dim: ",
      classes,
      " } } }\nlayer { name: 'prob' type: 'Softmax' bottom: 'conf_rows' top: 'prob' softmax_param "
      "{ axis: ",
      axis, " } }\nlayer { name: 'conf_flat' type: 'Flatten' bottom: 'prob' top: 'conf_flat' }\n");
}

void build(const std::string& text) {
  Context context;
  Net net(net_param(text), context, {.phase = Phase::test});
}

TEST(CheckDetections, SoftmaxOfRowsOfAnotherNumberOfClasses) {
  build(detector(rows_of(4)));
  build(detector(rows_of(4, -1)));
  expect_error([] { build(detector(rows_of(3))); },
               {"'out' (DetectionOutput)", "4 classes (num_classes)", "'prob' (Softmax)",
                "rows of 3", "'conf_rows' (2x16x3)", "dim: 4", "'conf_rows' (Reshape)"});
  expect_error([] { build(detector(rows_of(4, 1))); },
               {"'prob' (Softmax)", "along axis 1", "(2x12x4)"});
  // Without any rows it is taken over all boxes.
  expect_error(
      [] {
        build(
            detector("layer { name: 'prob' type: 'Softmax' bottom: 'conf_all' top: 'conf_flat' }"));
      },
      {"'prob' (Softmax)", "rows of 48"});
  // Through a Concat of the scales, too.
  expect_error(
      [] {
        const std::string rows = rows_of(3);
        build(
            detector(rows.substr(0, rows.find("layer { name: 'conf_flat'")) +
                     "layer { name: 'flat' type: 'Flatten' bottom: 'prob' top: 'flat' }\n"
                     "layer { name: 'conf_flat' type: 'Concat' bottom: 'flat' top: 'conf_flat' }"));
      },
      {"'prob' (Softmax)", "rows of 3"});
  // Sigmoids know no rows.
  build(detector("layer { name: 'prob' type: 'Sigmoid' bottom: 'conf_all' top: 'conf_flat' }"));
}

TEST(CheckDetections, PredictionsThatAreNotInTheOrderOfThePriors) {
  const std::string text = detector("");
  const auto with = [&](const char* from, const char* to) {
    std::string changed = text;
    for (const auto& [old, fresh] : {std::pair<std::string, std::string>{from, to}}) {
      for (size_t at = 0; (at = changed.find(old, at)) != std::string::npos; at += fresh.size())
        changed.replace(at, old.size(), fresh);
    }
    return changed;
  };
  // The rows themselves are in order; a map whose channels are not last is not.
  build(with("bottom: \"conf_flat\"", "bottom: \"conf_perm\""));
  expect_error([&] { build(with("bottom: \"conf_flat\"", "bottom: \"conf\"")); },
               {"'conf' (2x12x2x2)", "last axis has 2", "Permute"});
  expect_error(
      [&] {
        build(with("bottom: \"loc_flat\" bottom: \"conf_flat\"",
                   "bottom: \"loc\" bottom: \"conf_perm\""));
      },
      {"'loc' (2x12x2x2)", "Permute"});
  expect_error(
      [&] {
        build(
            detector("layer { name: 'conf_flat' type: 'Flatten' bottom: 'conf' top: 'conf_flat' }",
                     "num_classes: 3"));
      },
      {"'conf_flat' (2x48)", "num_classes: 3", "12 priors", "4 for each", "num_output"});
  expect_error(
      [&] {
        build(detector("layer { name: 'conf_flat' type: 'Flatten' bottom: 'map' top: 'conf_flat' }",
                       "num_classes: 3"));
      },
      {"'conf_flat' (2x12)", "1 for each"});
}

/// There are as many values, and those of a prior box lie apart.
TEST(CheckDetections, AForgottenPermute) {
  std::string text = detector(rows_of(4));
  const std::string all = "type: \"Flatten\" bottom: \"conf_perm\"";
  text.replace(text.find(all), all.size(), "type: \"Flatten\" bottom: \"conf\"");
  expect_error([&] { build(text); },
               {"predictions 'conf_flat'", "'conf' (Convolution)", "2x12x2x2", "Permute"});
  text = detector(rows_of(4));
  const std::string flat = "type: \"Flatten\" bottom: \"loc_perm\"";
  text.replace(text.find(flat), flat.size(), "type: \"Flatten\" bottom: \"loc\"");
  expect_error([&] { build(text); }, {"predictions 'loc_flat'", "'loc' (Convolution)"});
}

/// With four classes they have as many values as locations.
TEST(CheckDetections, LocationsAndConfidencesThatChangedPlaces) {
  std::string text = detector(rows_of(4));
  const std::string bottoms = "bottom: \"loc_flat\" bottom: \"conf_flat\"";
  text.replace(text.find(bottoms), bottoms.size(), "bottom: \"conf_flat\" bottom: \"loc_flat\"");
  expect_error([&] { build(text); },
               {"locations 'conf_flat'", "'prob' (Softmax)", "in this order"});
}

TEST(CheckDetections, MoreClassesThanAreEvaluated) {
  const auto evaluated = [](int classes) {
    return detector(rows_of(4)) +
           text(
               "layer { name: 'truth' type: 'Input' top: 'truth' input_param { shape { dim: 1 dim: "
               "1 dim: 1 dim: 8 } } }\nlayer { name: 'eval' type: 'DetectionEvaluate' bottom: "
               "'out' bottom: 'truth' top: 'eval' detection_evaluate_param { num_classes: ",
               classes, " } }");
  };
  build(evaluated(4));
  build(evaluated(5));
  expect_error([&] { build(evaluated(3)); },
               {"'eval' (DetectionEvaluate)", "num_classes is 3", "'out' (DetectionOutput)",
                "up to 3", "num_classes: 4"});
  const std::string region = R"(
layer { name: "grid" type: "Input" top: "grid" top: "truth" input_param { shape { dim: 1 dim: 7 dim: 2 dim: 2 } shape { dim: 1 dim: 1 dim: 1 dim: 8 } } }
layer { name: "out" type: "RegionDetectionOutput" bottom: "grid" top: "out" region_detection_output_param { num_classes: 2 num_box: 1 biases: 1 biases: 1 } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "out" bottom: "truth" top: "eval" detection_evaluate_param { num_classes: )";
  build(region + "3 } }");
  expect_error([&] { build(region + "2 } }"); },
               {"num_classes is 2", "up to 2", "num_classes: 3", "background"});
}

/// A training with a test net whose Reshape has 3 for 4 classes went on without a word.
TEST(CheckDetections, TheForgottenDimensionOfTheSmallDetector) {
  NetParameter net;
  read_text_proto(test::source_path("models/ssd_shapes/deploy.prototxt").string(), net);
  Context context;
  Net right(net, context, {.phase = Phase::test});
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.name() == "conf_rows") layer.mutable_reshape_param()->mutable_shape()->set_dim(2, 3);
  }
  expect_error([&] { Net wrong(net, context, {.phase = Phase::test}); },
               {"'detection_out'", "'conf_softmax'", "rows of 3", "dim: 4", "'conf_rows'"});
}

}  // namespace
}  // namespace crema
