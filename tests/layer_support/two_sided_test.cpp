// Rooms whose passes are one text for the host and a device.
#include "layer_support/two_sided.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/two_sided_run.hpp"

namespace crema::test {
namespace {

TEST(TwoSided, RoomsThatMoveDataRunOnADeviceWithoutItsCode) {
  check_device({.layer = R"(layer { type: "Flatten" })", .bottoms = {uniform({2, 3, 4})}});
  check_device(
      {.layer = R"(layer { type: "Split" })", .bottoms = {uniform({2, 16, 3, 4})}, .tops = 4});
  check_device({.layer = R"(layer { type: "Silence" })",
                .bottoms = {uniform({2, 16, 3, 4}), uniform({5})},
                .tops = 0});
  for (const char* axis : {"0", "1", "2", "-1"}) {
    check_device({.layer = text(R"(layer { type: "Concat" concat_param { axis: )", axis, " } }"),
                  .bottoms = {uniform({2, 16, 3, 4}), uniform({2, 16, 3, 4})}});
  }
  check_device({.layer = "layer { type: 'Parameter' parameter_param { shape { dim: 5 } } }"});
  check_device({.layer = "layer { type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 } } }",
                .bottoms = {uniform({2, 3, 4})}});
}

// The bodies that kernels of CUDA run, a position after the other.
TEST(TwoSided, BodiesOfDevicesAgreeWithTheHost) {
  if (kBuiltWithCuda)
    GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                    "with CREMA_CUDA=OFF";
  const auto of = [](const char* type, const char* settings = "") {
    return text("layer { type: '", type, "' ", settings, " }");
  };
  const Input rows = uniform({5, 37}, -5, 5), images = uniform({2, 6, 7, 9}, -5, 5);
  const char* const settings = "loss_param { ignore_label: 2 label_smoothing: 0.1 } loss_weight: 3";
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto check = [&](const LayerCase& c) { check_device(c, {1e-6, 1e-5}, dtype); };
    for (const char* attention : {"num_heads: 2", "num_heads: 2 causal: true dropout_ratio: 0.3"}) {
      const Input q = uniform({2, 21, 8}), k = uniform({2, 19, 8}), v = uniform({2, 19, 6});
      const std::string prototxt = text("attention_param { ", attention, " }");
      check({.layer = of("Attention", prototxt.c_str()), .bottoms = {q, k, v}});
      check({.layer = of("Attention", prototxt.c_str()), .bottoms = {q, k, v, labels({2, 19}, 2)}});
      check({.layer = of("Attention", prototxt.c_str()), .bottoms = {q, k, v, given({2}, {7, 0})}});
      // Several tiles, with rests, and tiles of other sizes for wider heads.
      check({.layer = of("Attention", prototxt.c_str()),
             .bottoms = {uniform({1, 70, 10}), uniform({1, 35, 10}), uniform({1, 35, 14}),
                         labels({1, 35}, 2)}});
      check({.layer = of("Attention", prototxt.c_str()),
             .bottoms = {uniform({1, 9, 300}, -0.5, 0.5), uniform({1, 21, 300}, -0.5, 0.5),
                         uniform({1, 21, 34})}});
    }
    check({.layer = of("SpatialTransformer", "st_param { output_H: 5 theta_1_3: 0.1 }"),
           .bottoms = {images, uniform({2, 5})}});
    check({.layer = of("SpatialTransformer", "st_param { output_H: 5 padding_mode: BORDER }"),
           .bottoms = {images, uniform({2, 6}, -2, 2)}});
    check(
        {.layer = of("DeformableConvolution",
                     "deformable_convolution_param { num_output: 4 kernel_size: 2 pad: 1 stride: 2 "
                     "group: 2 deformable_group: 3 weight_filler { type: 'xavier' } }"),
         .bottoms = {images, uniform({2, 24, 4, 5}, -3, 3), uniform({2, 12, 4, 5})}});
    check({.layer = of("PSROIAlign", "psroi_align_param { output_dim: 6 group_size: 1 }"),
           .bottoms = {images, given({2, 5}, {1, 0.5, 1, 6, 5, 0, 2, 2, 4.5, 8})}});
    check({.layer = of("LocallyConnected",
                       "local_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 "
                       "weight_filler { type: 'xavier' } }"),
           .bottoms = {images}});
    check({.layer = of("BN", "bn_param { slope_filler { type: 'gaussian' std: 1 } }"),
           .bottoms = {images}});
    check({.layer = of("BN", "bn_param { bn_mode: INFERENCE scale_filler { value: 2 } }"),
           .bottoms = {images}});
    check({.layer = of("CenterLoss",
                       "center_loss_param { num_output: 4 center_filler { type: 'xavier' } }"),
           .bottoms = {rows, labels({5}, 4)}});
    // The host counts what was predicted.
    check_device({.layer = of("ConfusionMatrix"), .bottoms = {rows, labels({5}, 37)}}, {0, 0},
                 dtype, 1);
    for (const char* dice :
         {"", "dice_loss_param { per_channel: true }", "dice_loss_param { squared: true }",
          "dice_loss_param { squared: true per_channel: true }"}) {
      check({.layer = of("DiceLoss", dice),
             .bottoms = {uniform({2, 6, 7, 9}, 0, 1), labels({2, 6, 7, 9}, 2)}});
    }
    for (const char* type : {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"}) {
      const std::string prototxt = text("margin_inner_product_param { num_output: 4 type: ", type,
                                        " base: 2 weight_filler { type: 'xavier' } }");
      check({.layer = of("MarginInnerProduct", prototxt.c_str()),
             .bottoms = {rows, labels({5}, 4)},
             .tops = 2});
    }
    for (const char* added : {"std: 0.3", "std: 0.3 distribution: UNIFORM relative_to: VALUE",
                              "std: 0.2 relative_to: RANGE"}) {
      check(
          {.layer = of("Noise", text("noise_param { ", added, " }").c_str()), .bottoms = {images}});
    }
    const std::string weights =
        "loss_param { weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 3 "
        "class_weighting: 0 class_weighting: 2 class_weighting: 1 class_weighting: 7 ";
    for (const char* activation : {"", "activation: SIGMOID background_label_id: 3"}) {
      const std::string focal = text("focal_loss_param { ", activation, " } ");
      const Input maps = labels({2, 7, 9}, 6);
      check({.layer = of("FocalLoss", focal.c_str()), .bottoms = {images, maps}, .tops = 2});
      for (const char* more : {"ignore_label: 1 }", "label_smoothing: 0.2 }"}) {
        check({.layer = of("FocalLoss", text(focal, weights, more).c_str()),
               .bottoms = {images, maps}});
      }
    }
    check({.layer = of("FocalLoss", "focal_loss_param { activation: SIGMOID }"),
           .bottoms = {images, uniform({2, 6, 7, 9}, 0, 1)}});
    for (const char* type : {"HingeLoss", "MultinomialLogisticLoss", "InfogainLoss"}) {
      std::vector<Input> bottoms = {uniform({5, 6}, 0.1, 1), labels({5}, 6)};
      if (std::string_view(type) == "InfogainLoss") bottoms.push_back(uniform({6, 6}));
      check({.layer = of(type, (weights + "}").c_str()), .bottoms = bottoms});
      check({.layer = of(type, "loss_param { weight_by_label_freqs: true ignore_label: 1 }"),
             .bottoms = bottoms});
    }
    check({.layer = of("SigmoidCrossEntropyLoss", (weights + "}").c_str()),
           .bottoms = {images, uniform({2, 6, 7, 9}, 0, 1)}});
    for (const char* triplet : {"", "triplet_loss_param { swap: true squared: false }"})
      check(
          {.layer = of("TripletLoss", triplet), .bottoms = {rows, rows, uniform({5, 37}, -5, 5)}});
    check({.layer = of("Repeat", "repeat_param { times: 3 }"), .bottoms = {images}});
    check({.layer = of("Tile", "tile_param { tiles: 3 }"), .bottoms = {images}});
    check({.layer = of("Pooling3D",
                       "pooling3d_param { kernel_size: 3 kernel_depth: 2 stride: 2 pad: 1 }"),
           .bottoms = {uniform({2, 3, 5, 7, 6})}});
    check({.layer =
               of("SoftmaxWithLoss", "loss_param { weight_by_label_freqs: true ignore_label: 2 }"),
           .bottoms = {rows, labels({5}, 37)}});
    for (const Input& x : {rows, images}) {
      const bool flat = x.shape.rank() == 2;
      const Input targets = labels(flat ? Shape{5} : Shape{2, 7, 9}, x.shape[1]);
      check({.layer = of("Softmax"), .bottoms = {x}});
      check({.layer = of("SoftmaxWithLoss"), .bottoms = {x, targets}});
      check({.layer = of("SoftmaxWithLoss", settings), .bottoms = {x, targets}, .tops = 2});
      check({.layer = of("Accuracy", "accuracy_param { top_k: 2 ignore_label: 3 }"),
             .bottoms = {x, targets}});
      check({.layer = of("EuclideanLoss"), .bottoms = {x, x}});
      check({.layer = of("SigmoidCrossEntropyLoss"), .bottoms = {x, x}});
      check({.layer = of("InfogainLoss", "loss_param { ignore_label: 2 }"),
             .bottoms = {x, targets, uniform({x.shape[1], x.shape[1]})},
             .tops = 2});
    }
    check({.layer = of("SoftmaxWithLossOHEM"), .bottoms = {rows, labels({5}, 37)}, .tops = 3});
    check({.layer = of("SmoothL1LossOHEM"), .bottoms = {images, images, images}, .tops = 2});
    const Input priors = given({1, 2, 8}, {0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 0.9, 0.9,  //
                                           0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2});
    const Input boxes = given({1, 1, 1, 8}, {1, 2, 0, 0.12, 0.1, 0.42, 0.4, 0});
    // 210 priors. Image 1 has no box, image 2 a difficult one.
    std::vector<double> grid(2 * 840, 0.2);
    for (size_t p = 0; p < 210; ++p) {
      const double x = 0.06 * static_cast<double>(p % 15), y = 0.06 * static_cast<double>(p / 15);
      std::ranges::copy(std::array{x, y, x + 0.15, y + 0.15}, grid.begin() + 4 * p);
    }
    const Input many_priors = given({1, 2, 840}, grid);
    const Input many_boxes = given({1, 1, 3, 8}, {0, 1, 0, 0.11, 0.12, 0.29, 0.30, 0,  //
                                                  0, 2, 0, 0.52, 0.41, 0.64, 0.60, 0,  //
                                                  2, 2, 0, 0.31, 0.29, 0.47, 0.45, 1});
    const Input equal = given({3, 630}, std::vector<double>(1890, 0.5));
    for (const char* more :
         {"", "mining_type: NONE", "conf_loss_type: LOGISTIC", "mining_type: HARD_EXAMPLE",
          "mining_type: HARD_EXAMPLE conf_loss_type: LOGISTIC", "ignore_difficult_gt: true",
          "use_difficult_gt: false"}) {
      const std::string layer =
          of("MultiBoxLoss", text("multibox_loss_param { num_classes: 3 ", more, " }").c_str());
      const auto check_loss = [&](const std::vector<Input>& bottoms) {
        check_device({.layer = layer, .bottoms = bottoms}, {1e-6, 1e-5}, dtype, 0, true, 4);
      };
      check_loss({uniform({2, 8}), uniform({2, 6}), priors, boxes});
      check_loss({uniform({3, 840}), uniform({3, 630}), many_priors, many_boxes});
      check_loss({uniform({3, 840}), equal, many_priors, many_boxes});
    }
    // The host waits for the number of boxes.
    check_device({.layer = of("DetectionOutput", "detection_output_param { num_classes: 3 }"),
                  .bottoms = {uniform({2, 8}), uniform({2, 6}), priors, uniform({2, 3, 4, 4})}},
                 {0, 0}, dtype, 1, true, 3);
    check_device({.layer = of("DetectionEvaluate", "detection_evaluate_param { num_classes: 3 }"),
                  .bottoms = {given({1, 1, 1, 7}, {1, 2, 0.5, 0.1, 0.1, 0.4, 0.4}), boxes}},
                 {0, 0}, dtype);
    const Input classes = labels({5}, 37), whole = labels({5, 37}, 3);
    const char* const ignoring = "loss_param { ignore_label: 2 normalization: VALID }";
    check({.layer = of("SigmoidCrossEntropyLoss", ignoring), .bottoms = {rows, whole}});
    check({.layer = of("HingeLoss", "hinge_loss_param { norm: L2 }"), .bottoms = {rows, classes}});
    check({.layer = of("HingeLoss", ignoring), .bottoms = {rows, classes}});
    check({.layer = of("MultinomialLogisticLoss", ignoring),
           .bottoms = {uniform({5, 37}, 0, 1), classes}});
    for (const char* version : {"margin: 30", "margin: 300 legacy_version: true"}) {
      check(
          {.layer = of("ContrastiveLoss", text("contrastive_loss_param { ", version, " }").c_str()),
           .bottoms = {rows, uniform({5, 37}, -5, 5), labels({5}, 2)}});
    }
    check({.layer = of("EuclideanLoss"), .bottoms = {uniform({9, 1000}), uniform({9, 1000})}});

    check({.layer = of("Dropout"), .bottoms = {images}});
    check({.layer = of("Dropout"), .bottoms = {images}, .phase = Phase::test});
    const Input positive = uniform({2, 6, 7, 9}, 1, 2);
    const std::string relu = of("ReLU");
    check({.layer = of("Eltwise", "eltwise_param { coeff: 2 coeff: -1 coeff: 0.5 }"),
           .bottoms = {images, images, images}});
    check({.layer = of("Eltwise"), .bottoms = {images, images}, .tail = {relu}});
    check({.layer = of("Eltwise", "eltwise_param { operation: PROD }"),
           .bottoms = {images, images, images, images}});
    check({.layer = of("Eltwise", "eltwise_param { operation: PROD stable_prod_grad: false }"),
           .bottoms = {positive, positive}});
    check(
        {.layer = of("Eltwise", "eltwise_param { operation: MAX }"), .bottoms = {images, images}});

    const auto pool = [&](const char* windows) {
      return of("Pooling", text("pooling_param { ", windows, " }").c_str());
    };
    check({.layer = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}, .tops = 2});
    check({.layer = pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}});
    check({.layer = pool("pool: STOCHASTIC kernel_size: 3 stride: 2"), .bottoms = {positive}});
    check({.layer = pool("pool: STOCHASTIC kernel_size: 3 stride: 2"),
           .bottoms = {positive},
           .phase = Phase::test});

    check({.layer = of("BatchNorm", "batch_norm_param { scale_bias: true relu: true }"),
           .bottoms = {images}});
    check({.layer = of("BatchNorm"), .bottoms = {rows}});
    check({.layer = of("Scale", "scale_param { bias_term: true }"), .bottoms = {images}});
    check({.layer = of("Scale", "scale_param { axis: 0 }"), .bottoms = {images, uniform({2, 6})}});
    check({.layer = of("Bias"), .bottoms = {images}});
    check({.layer = of("Bias", "bias_param { axis: 0 }"), .bottoms = {images, uniform({2, 6})}});
    check(
        {.layer = of("ArgMax", "argmax_param { top_k: 3 out_max_val: true }"), .bottoms = {rows}});
    check({.layer = of("ArgMax", "argmax_param { axis: 1 }"), .bottoms = {images}});
    check({.layer = of("BatchReindex"), .bottoms = {images, labels({7}, 2)}});
    check({.layer = of("Crop", "crop_param { offset: 1 }"),
           .bottoms = {images, uniform({1, 1, 3, 4})}});
    check({.layer = of("Embed",
                       "embed_param { input_dim: 7 num_output: 300 weight_filler { type: "
                       "'gaussian' } bias_filler { type: 'gaussian' } }"),
           .bottoms = {labels({9, 4}, 7)}});
    check(
        {.layer = of("Filter"), .bottoms = {images, uniform({2}), given({2}, {0, 1})}, .tops = 2});
    for (const char* operation : {"SUM", "ASUM", "SUMSQ", "MEAN"}) {
      const std::string sums = text("reduction_param { axis: 1 operation: ", operation, " }");
      check({.layer = of("Reduction", sums.c_str()), .bottoms = {images}});
      check({.layer = of("Reduction", sums.c_str()), .bottoms = {uniform({2, 70001})}});
    }
    check({.layer = of("Tile", "tile_param { tiles: 3 }"), .bottoms = {images}});
    check({.layer = of("Tile", "tile_param { axis: 3 tiles: 3 }"), .bottoms = {images}});
    check({.layer = of("LRN", "lrn_param { alpha: 2 }"), .bottoms = {images}});
    check({.layer = of("LRN", "lrn_param { norm_region: WITHIN_CHANNEL alpha: 2 }"),
           .bottoms = {images}});
    for (const char* more : {"", "transpose: true", "bias_term: false"}) {
      const std::string inner = text(
          "inner_product_param { num_output: 37 weight_filler { type: 'xavier' } ", more, " }");
      check({.layer = of("InnerProduct", inner.c_str()), .bottoms = {images}, .tail = {relu}});
    }
    for (const char* norm : {"", "across_channels: true", "normalize_variance: false"}) {
      check({.layer = of("MVN", text("mvn_param { ", norm, " }").c_str()), .bottoms = {images}});
    }
    for (const char* slopes : {"", "prelu_param { channel_shared: true }"}) {
      check({.layer = of("PReLU", slopes), .bottoms = {images}});
    }
    for (const char* bins : {"pyramid_height: 3", "pyramid_height: 2 pool: AVE"}) {
      check({.layer = of("SPP", text("spp_param { ", bins, " }").c_str()), .bottoms = {images}});
    }
    check({.layer = of("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"),
           .bottoms = {uniform({2, 6, 8, 4}, 1, 2)}});
    check({.layer = pool("kernel_size: 3 stride: 2 pad: 1"),
           .bottoms = {uniform({2, 3, 5, 7, 6})},
           .tops = 2});
    check(
        {.layer = of("Scale", "scale_param { num_axes: 0 bias_term: true }"), .bottoms = {images}});
    check({.layer = of("Bias", "bias_param { num_axes: 0 }"), .bottoms = {images}});
    const Input cont = given({3, 2}, {0, 0, 1, 0, 1, 1}), state = uniform({1, 2, 5});
    const Input sequences = uniform({3, 2, 4});
    for (const char* type : {"LSTM", "RNN", "GRU"}) {
      const bool lstm = std::string_view(type) == "LSTM";
      const auto recurrent = [](const char* more) {
        return text("recurrent_param { num_output: 5 weight_filler { type: 'xavier' } ", more,
                    " }");
      };
      check({.layer = of(type, recurrent("").c_str()),
             .bottoms = {sequences, cont, uniform({2, 3})}});
      check({.layer = of(type, recurrent("bidirectional: true").c_str()),
             .bottoms = {sequences, cont, uniform({2, 3})}});
      std::vector<Input> bottoms = {sequences, cont, state};
      if (lstm) bottoms.push_back(state);
      check({.layer = of(type, recurrent("expose_hidden: true").c_str()),
             .bottoms = bottoms,
             .tops = lstm ? 3 : 2});
    }
    check({.layer = of("GRU",
                       "recurrent_param { num_output: 5 linear_before_reset: false "
                       "weight_filler { type: 'xavier' } bidirectional: true }"),
           .bottoms = {sequences, cont}});
    check({.layer = of("LSTMUnit"),
           .bottoms = {state, uniform({1, 2, 20}), given({1, 2}, {1, 0})},
           .tops = 2});
  }
}

// A team of threads shares the states of a step, as those of a block do.
TEST(TwoSided, RecursionsAndLatticesOfDevicesAgreeWithTheHost) {
  if (kBuiltWithCuda)
    GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                    "with CREMA_CUDA=OFF";
  const auto of = [](const char* type, const std::string& settings) {
    return text("layer { type: '", type, "' ", settings, " }");
  };
  const Input scores = uniform({7, 3, 5}, -3, 3);
  const Input begins =
      given({7, 3}, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1});
  const Input ends = given({7, 3}, {0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  const Input columns = given({3, 3}, {1, 2, -1, 1, -1, -1, 1, -1, -1});
  // Row 1 has repetitions, and row 2 more of them than there are steps for.
  const Input rows = given({3, 4}, {0, 3, -1, -1, 2, 2, 1, 2, 1, 1, 1, 1});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tolerance close{1e-6, dtype == DType::f32 ? 1e-5 : 1e-10};
    for (const bool trains : {true, false}) {
      // The host reads the probabilities of the labels, and what may be no number.
      for (const char* ctc :
           {"", "ctc_loss_param { ctc_merge_repeated: false output_delay: 1 blank_index: 0 }"}) {
        check_device({.layer = of("CTCLoss", ctc), .bottoms = {scores, rows}}, close, dtype, 1,
                     trains);
      }
      check_device({.layer = of("CTCLoss", ""), .bottoms = {scores, ends, columns}}, close, dtype,
                   1, trains);
      for (const char* crf : {"",
                              "crf_loss_param { transition_filler { type: 'gaussian' std: 4 } "
                              "boundary_term: true boundary_filler { type: 'gaussian' } } "
                              "loss_param { ignore_label: 4 }"}) {
        check_device({.layer = of("CRFLoss", crf),
                      .bottoms = {scores, labels({7, 3}, 5), begins},
                      .tops = 2},
                     close, dtype, 1, trains);
      }
      // One step, no sequence, one class, no label that counts.
      check_device({.layer = of("CRFLoss", ""), .bottoms = {uniform({1, 3, 5}), labels({1, 3}, 5)}},
                   close, dtype, 1, trains);
      check_device({.layer = of("CRFLoss", ""),
                    .bottoms = {uniform({4, 0, 5}), labels({4, 0}, 5)},
                    .tops = 2},
                   close, dtype, 1, trains);
      check_device({.layer = of("CRFLoss", "crf_loss_param { boundary_term: true }"),
                    .bottoms = {uniform({4, 2, 1}), labels({4, 2}, 1)}},
                   close, dtype, 1, trains);
      check_device({.layer = of("CRFLoss", "loss_param { ignore_label: 0 }"),
                    .bottoms = {scores, labels({7, 3}, 1)},
                    .tops = 2},
                   close, dtype, 1, trains);
      // Classes whose pairs are too many for parts of the positions.
      check_device({.layer = of("CRFLoss",
                                "crf_loss_param { transition_filler { "
                                "type: 'gaussian' } boundary_term: true }"),
                    .bottoms = {uniform({3, 2, 300}), labels({3, 2}, 300)}},
                   close, dtype, 1, trains);
      check_device({.layer = of("CTCLoss", ""), .bottoms = {uniform({1, 2, 3}), labels({2, 1}, 2)}},
                   close, dtype, 1, trains);
      check_device(
          {.layer = of("CTCLoss", ""), .bottoms = {uniform({3, 2, 1}), given({2, 1}, {-1, -1})}},
          close, dtype, 1, trains);
      // A score whose class has no probability, in a label and out of it.
      Input impossible = given({2, 2, 3}, std::vector<double>(12, 0.5));
      impossible.values[1] = impossible.values[9] = -std::numeric_limits<double>::infinity();
      check_device({.layer = of("CTCLoss", ""), .bottoms = {impossible, given({2, 1}, {0, 1})}},
                   close, dtype, 1, trains);
      // What counts goes through sums that powers cannot hold.
      check_device({.layer = of("CRFLoss", ""),
                    .bottoms = {given({2, 1, 2}, {0, -3000, -20000, 0}), given({2, 1}, {1, 1})},
                    .params = {{0, -5000, -1000, -4000}}},
                   close, dtype, 1, trains);
      for (const char* iterations : {"1", "3"}) {
        check_device(
            {.layer = of("MultiStageMeanfield",
                         text("multi_stage_meanfield_param { theta_alpha: 3 theta_beta: 40 ",
                              "theta_gamma: 1.5 spatial_filter_weight: 3 ",
                              "bilateral_filter_weight: 5 num_iterations: ", iterations, " }")),
             .bottoms = {uniform({2, 3, 4, 5}, -2, 2), uniform({2, 3, 4, 5}, -2, 2),
                         labels({2, 3, 4, 5}, 200)}},
            close, dtype, 0, trains);
      }
      // One pixel, and more labels than a block of threads takes at once.
      for (const Shape& shape : {Shape{1, 3, 1, 1}, Shape{1, 300, 2, 3}}) {
        check_device(
            {.layer = of("MultiStageMeanfield",
                         "multi_stage_meanfield_param { theta_alpha: 3 theta_beta: 40 "
                         "theta_gamma: 1.5 spatial_filter_weight: 3 bilateral_filter_weight: 5 "
                         "num_iterations: 2 }"),
             .bottoms = {uniform(shape), uniform(shape), labels({1, 3, shape[2], shape[3]}, 200)}},
            close, dtype, 0, trains);
      }
    }
    for (const char* crf : {"",
                            "crf_loss_param { boundary_term: true boundary_filler { type: "
                            "'gaussian' } transition_filler { type: 'gaussian' } }"}) {
      check_device({.layer = of("CRFDecoder", crf), .bottoms = {scores, begins}}, {0, 0}, dtype, 1);
      check_device({.layer = of("CRFDecoder", crf), .bottoms = {labels({7, 3, 5}, 2)}}, {0, 0},
                   dtype, 1);
    }
    for (const char* greedy : {"", "ctc_decoder_param { ctc_merge_repeated: false }"}) {
      const std::string layer = of("CTCGreedyDecoder", greedy);
      // Few classes, so that there are repetitions and equal scores.
      const Input few = labels({29, 3, 3}, 2);
      check_device({.layer = layer, .bottoms = {few}, .tops = 2}, {0, 0}, dtype, 1);
      check_device({.layer = layer, .bottoms = {scores, ends}, .tops = 2}, close, dtype, 1);
      check_device({.layer = layer, .bottoms = {scores, ends, columns}, .tops = 3}, close, dtype,
                   2);
    }
  }
}

/// Top, diff of the bottom, parameters and their gradients of the reference.
std::vector<std::vector<double>> results(const LayerCase& c, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  LayerRun run(c);
  run.forward();
  run.backward();
  std::vector<std::vector<double>> all = {run.top(0), run.bottom_diff(0)};
  for (int i = 0; i < run.num_params(); ++i) {
    all.push_back(run.param(i));
    all.push_back(run.gradient(i));
  }
  omp_set_num_threads(before);
  return all;
}

TEST(TwoSided, ThreadsDoNotChangeTheReference) {
  const auto check = [](const std::string& layer, const std::vector<Input>& bottoms) {
    SCOPED_TRACE(layer);
    const LayerCase c{.layer = text("layer { ", layer, " }"), .bottoms = bottoms};
    const auto of_one = results(c, 1);
    EXPECT_EQ(results(c, 2), of_one);
    EXPECT_EQ(results(c, 5), of_one);
  };
  for (const char* layer :
       {"type: 'BatchNorm' batch_norm_param { scale_bias: true relu: true }",
        "type: 'Scale' scale_param { bias_term: true }", "type: 'LRN' lrn_param { alpha: 0.5 }"}) {
    check(layer, {uniform({3, 7, 31, 33}, -2, 3)});
  }
  const Input scores = uniform({900, 37}, -3, 3), classes = labels({900}, 37);
  check("type: 'HingeLoss'", {scores, classes});
  check("type: 'HingeLoss' hinge_loss_param { norm: L2 }", {scores, classes});
  check("type: 'InfogainLoss'", {scores, classes, uniform({37, 37}, 0, 1)});
  check("type: 'MultinomialLogisticLoss'", {uniform({900, 37}, 0.1, 1), classes});
  check("type: 'ContrastiveLoss' contrastive_loss_param { margin: 15 }",
        {scores, uniform({900, 37}, -3, 3), labels({900}, 2)});
  check("type: 'SigmoidCrossEntropyLoss'", {scores, labels({900, 37}, 2)});
  for (const char* axis : {"0", "1"}) {
    check(text("type: 'Tile' tile_param { tiles: 3 axis: ", axis, " }"), {scores});
  }
  check("type: 'Tile' tile_param { tiles: 7 axis: -1 }", {uniform({9000, 1})});
  check("type: 'BatchReindex'", {scores, labels({700}, 900)});
}

}  // namespace
}  // namespace crema::test
