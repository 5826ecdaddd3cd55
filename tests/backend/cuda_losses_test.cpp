// CUDA engines of losses, and of detectors.
#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

std::vector<EngineCase> cases() {
  const Input images = uniform({2, 6, 7, 9});
  // Detectors: two priors, and a true box in each of two images.
  const Input priors = given({1, 2, 8}, {0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 0.9, 0.9,  //
                                         0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2});
  const Input truths = given({1, 1, 2, 8}, {0, 1, 0, 0.52, 0.5, 0.85, 0.9, 0,  //
                                            1, 2, 0, 0.12, 0.1, 0.42, 0.4, 0});
  const auto multibox = [&](const std::string& more) {
    return LayerCase{.layer = layer_of("MultiBoxLoss",
                                       text("multibox_loss_param { num_classes: 3 ", more, " }")),
                     .bottoms = {uniform({2, 8}), uniform({2, 6}), priors, truths}};
  };
  return {
      {"softmax_loss",
       "cuda",
       {.layer = layer_of("SoftmaxWithLoss"), .bottoms = {uniform({70, 100}), labels({70}, 100)}}},
      {"softmax_loss_images",
       "cuda",
       {.layer =
            layer_of("SoftmaxWithLoss",
                     "loss_param { ignore_label: 2 label_smoothing: 0.1 normalization: VALID }"),
        .bottoms = {images, labels({2, 1, 7, 9}, 6)},
        .tops = 2}},
      {"euclidean_loss",
       "cuda",
       {.layer = layer_of("EuclideanLoss"), .bottoms = {uniform({9, 1000}), uniform({9, 1000})}}},
      {"contrastive_loss",
       "cuda",
       {.layer = layer_of("ContrastiveLoss", "contrastive_loss_param { margin: 20 }"),
        .bottoms = {uniform({9, 500}), uniform({9, 500}), labels({9}, 2)}}},
      {"contrastive_loss_legacy",
       "cuda",
       {.layer = layer_of("ContrastiveLoss",
                          "contrastive_loss_param { margin: 350 legacy_version: true }"),
        .bottoms = {uniform({9, 500}), uniform({9, 500}), labels({9}, 2)}}},
      {"hinge_loss",
       "cuda",
       {.layer = layer_of("HingeLoss"), .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100)}}},
      {"hinge_loss_squared",
       "cuda",
       {.layer =
            layer_of("HingeLoss", "hinge_loss_param { norm: L2 } loss_param { ignore_label: 2 }"),
        .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100)}}},
      {"infogain_loss",
       "cuda",
       {.layer = layer_of("InfogainLoss"),
        .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100), uniform({100, 100})}},
       kSums},
      {"infogain_loss_images",
       "cuda",
       {.layer = layer_of("InfogainLoss", "loss_param { ignore_label: 2 }"),
        .bottoms = {images, labels({2, 1, 7, 9}, 6), uniform({6, 6})},
        .tops = 2},
       kSums},
      {"multinomial_logistic_loss",
       "cuda",
       {.layer = layer_of("MultinomialLogisticLoss"),
        .bottoms = {uniform({70, 100}, 0.1, 1), labels({70}, 100)}}},
      {"sigmoid_cross_entropy_loss",
       "cuda",
       {.layer = layer_of("SigmoidCrossEntropyLoss"),
        .bottoms = {uniform({70, 100}, -9, 9), uniform({70, 100})}}},
      {"sigmoid_cross_entropy_loss_valid",
       "cuda",
       {.layer = layer_of("SigmoidCrossEntropyLoss",
                          "loss_param { ignore_label: 1 normalization: VALID }"),
        .bottoms = {uniform({70, 100}, -9, 9), labels({70, 100}, 3)}}},
      {"center_loss",
       "cuda",
       {.layer = layer_of("CenterLoss",
                          "center_loss_param { num_output: 7 center_filler { type: "
                          "'gaussian' std: 1 } }"),
        .bottoms = {uniform({9, 40}), labels({9}, 7)}},
       kSums},
      {"dice_loss",
       "cuda",
       {.layer = layer_of("DiceLoss", "dice_loss_param { per_channel: true }"),
        .bottoms = {uniform({2, 6, 7, 9}, 0, 1), labels({2, 6, 7, 9}, 2)}},
       kSums},
      {"multibox_loss", "cuda", multibox(""), kSums},
      {"multibox_loss_logistic", "cuda", multibox("conf_loss_type: LOGISTIC mining_type: NONE"),
       kSums},
      {"proposal",
       "cuda",
       {.layer = layer_of("Proposal", "proposal_param { scale: 2 scale: 4 min_size: 3 }"),
        .bottoms = {uniform({2, 12, 4, 5}, 0, 1), uniform({2, 24, 4, 5}, -0.3, 0.3),
                    given({2, 3}, {64, 80, 1, 60, 70, 1})},
        .tops = 2}},
      {"region_loss",
       "cuda",
       {.layer = layer_of("RegionLoss",
                          "region_loss_param { num_class: 2 num: 2 biases: 1 biases: 1 "
                          "biases: 0.5 biases: 1.5 rescore: 1 }"),
        .bottoms = {uniform({2, 14, 3, 4}), truths}},
       kSums},
  };
}

INSTANTIATE_TEST_SUITE_P(Losses, CudaEngine, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace crema::test
