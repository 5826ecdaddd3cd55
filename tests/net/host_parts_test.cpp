// Layers of a net on a device whose forward pass reads something on the host say so, and no others.
#include <gtest/gtest.h>

#include "net/traffic.hpp"
#include "support/fake_context.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;

struct HostCase {
  std::string layer;           // type and settings
  std::vector<Shape> bottoms;  // filled with whole numbers in [0, classes), or 0.25
  std::string part;            // what the summary says
  int tops = 1;
  std::vector<int64_t> classes = {};  // of each bottom; 0: 0.25
  bool waits = false;                 // for the shape of its top
};

/// The layer behind others that leave their tops on the device.
std::string net_of(const HostCase& c) {
  std::string inputs, copies, shapes, bottoms, tops;
  for (size_t i = 0; i < c.bottoms.size(); ++i) {
    const std::string n = std::to_string(i);
    inputs += "top: 'in" + n + "' ";
    shapes += "shape { ";
    for (const int64_t dim : c.bottoms[i].dims()) shapes += text("dim: ", dim, " ");
    shapes += "} ";
    copies += "layer { name: 'copy" + n + "' type: 'Power' bottom: 'in" + n + "' top: 'x" + n +
              "' power_param { power: 1 scale: 2 } } ";
    bottoms += "bottom: 'x" + n + "' ";
  }
  for (int t = 0; t < c.tops; ++t) tops += text("top: 'y", t, "' ");
  return "layer { name: 'in' type: 'Input' " + inputs + "input_param { " + shapes + "} } " +
         copies + "layer { name: 'op' " + bottoms + tops + c.layer + " }";
}

TEST(HostParts, AreWhatReadsOnTheHost) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  const std::string loss = "loss_weight: 0 ";
  const std::string frequent = loss + "loss_param { weight_by_label_freqs: true } ";
  const std::vector<Shape> boxes = {{2, 8}, {2, 6}, {1, 2, 8}, {1, 1, 1, 8}};
  const std::vector<Shape> detections = {{2, 8}, {2, 6}, {1, 2, 8}};
  const std::string classes3 = "detection_output_param { num_classes: 3 ";
  const std::string mining = "type: 'MultiBoxLoss' multibox_loss_param { num_classes: 3 ";
  const std::vector<HostCase> cases = {
      {"type: 'ReLU'", {{2, 3}}, ""},
      {"type: 'Softmax'", {{2, 3}}, ""},
      {loss + "type: 'SoftmaxWithLoss'", {{2, 5}, {2}}, "", 1, {0, 3}},
      {frequent + "type: 'SoftmaxWithLoss'", {{2, 5}, {2}}, "weights of classes", 1, {0, 3}},
      {frequent + "type: 'HingeLoss'", {{2, 5}, {2}}, "weights of classes", 1, {0, 3}},
      {loss + "type: 'HingeLoss'", {{2, 5}, {2}}, "", 1, {0, 3}},
      {loss + "type: 'MultinomialLogisticLoss'", {{2, 5}, {2}}, "", 1, {0, 3}},
      {loss + "type: 'FocalLoss'", {{2, 5}, {2}}, "", 1, {0, 3}},
      {loss + "type: 'SoftmaxWithLoss'", {{2, 2}, {2, 2}}, "check of probabilities"},
      {"type: 'Accuracy'", {{2, 5}, {2}}, "", 1, {0, 3}},
      {"type: 'Accuracy'", {{2, 5}, {2}}, "counts by class", 2, {0, 3}},
      {"type: 'ConfusionMatrix'", {{2, 5}, {2}}, "counts", 1, {0, 3}},
      {"type: 'Embed' embed_param { input_dim: 7 num_output: 3 }", {{2, 4}}, "", 1, {4}},
      {"type: 'BatchReindex'", {{4, 3}, {5}}, "", 1, {0, 2}},
      {"type: 'Filter'", {{4, 3}, {4}}, "reading the selector", 1, {0, 2}, true},
      {loss + "type: 'CenterLoss' center_loss_param { num_output: 4 }",
       {{5, 3}, {5}},
       "",
       1,
       {0, 2}},
      {"type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 }",
       {{2, 3, 6, 6}, {4, 5}},
       "",
       1,
       {0, 1}},
      {"type: 'Im2col' convolution_param { kernel_size: 2 }", {{2, 3, 5, 5}}, ""},
      {"type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: 2 }",
       {{6, 5}, {6}, {6}, {6, 4}},
       "",
       2,
       {1, 0, 2, 0}},
      {"type: 'Proposal' proposal_param { scale: 1 min_size: 1 }",
       {{1, 6, 4, 4}, {1, 12, 4, 4}, {1, 3}},
       "",
       1,
       {},
       true},
      {"type: 'RegionDetectionOutput' region_detection_output_param { num_box: 1 num_classes: 3 "
       "biases: 1 biases: 2 }",
       {{2, 8, 3, 3}},
       "",
       1,
       {},
       true},
      {"type: 'DetectionOutput' " + classes3 + "}", detections, "", 1, {}, true},
      {loss + mining + "}", boxes, ""},
      {loss + mining + "nms_param { nms_threshold: 0.5 } }", boxes, "matching and mining"},
      {frequent + mining + "}", boxes, "matching and mining"},
      {loss + "type: 'CTCLoss'", {{4, 2, 3}, {2, 1}}, "labels and sum of losses", 1, {0, 1}},
      {"type: 'CTCGreedyDecoder'",
       {{4, 2, 3}, {4, 2}},
       "check of indicators and scores",
       1,
       {0, 1}},
      {"type: 'CRFDecoder'", {{4, 2, 3}, {4, 2}}, "check of indicators and scores", 1, {0, 1}},
      {loss + "type: 'CRFLoss'", {{4, 2, 3}, {4, 2}}, "labels and sum of losses", 1, {0, 3}},
      {"type: 'LSTM' recurrent_param { num_output: 3 }",
       {{3, 2, 4}, {3, 2}},
       "check of indicators",
       1,
       {0, 1}},
      {"type: 'Attention' attention_param { num_heads: 1 }",
       {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {2}},
       "check of lengths",
       1,
       {0, 0, 0, 2}},
  };
  for (const HostCase& c : cases) {
    SCOPED_TRACE(c.layer);
    FakeContext fake;
    Net net(net_param(net_of(c)), fake.context(), {.phase = Phase::test});
    const auto fill = [&] {
      for (size_t i = 0; i < c.bottoms.size(); ++i) {
        Tensor& input = net.input("in" + std::to_string(i));
        const int64_t range = i < c.classes.size() ? c.classes[i] : 0;
        float* const to = input.overwrite<float>();
        for (int64_t k = 0; k < input.count(); ++k)
          to[k] = range > 0 ? static_cast<float>(k % range) / 2 : 0.25F;
        if (c.bottoms[i] == Shape{1, 2, 8}) {  // priors
          for (int64_t k = 0; k < 8; ++k) to[k] = k % 4 < 2 ? 0.1F : 0.3F;
        } else if (c.bottoms[i] == Shape{1, 1, 1, 8}) {  // a true box
          for (int64_t k = 0; k < 8; ++k)
            to[k] = k == 1 ? 0.5F : k < 3 || k > 6 ? 0 : k < 5 ? 0.1F : 0.2F;
        } else if (c.bottoms[i] == Shape{1, 3}) {  // height, width and scale of an image
          to[0] = to[1] = 32;
        }
      }
    };
    for (int pass = 0; pass < 2; ++pass) {
      fill();
      fake.device().downloads = 0;
      net.forward();
    }
    const std::vector<StepTraffic> traffic = step_traffic(net);
    for (size_t s = 0; s < net.steps().size(); ++s) {
      if (net.steps()[s].layer < 0 || net.steps()[s].name == "in") continue;
      const bool is_op = net.steps()[s].name == "op";
      EXPECT_EQ(traffic[s].host_part, is_op ? c.part : "");
      EXPECT_EQ(placement(traffic[s]).find(" on the host") != std::string::npos,
                is_op && !c.part.empty())
          << placement(traffic[s]);
    }
    EXPECT_EQ(fake.device().downloads > 0, c.waits || !c.part.empty());
  }
}

}  // namespace
}  // namespace crema
