// The deploy files of models/ name what other readers of prototxts have other defaults for, or
// none: the Caffe importer of OpenCV's dnn (4.10), caffe2ncnn of ncnn, and the Caffe reader of
// OpenVINO's last model optimizer.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "proto/net.pb.h"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Message;

/// Fields that have to stand in the text. With "|": one of them.
const std::multimap<std::string, std::vector<std::string>> kAsked = {
    {"DetectionOutput",
     {"detection_output_param.num_classes", "detection_output_param.share_location",
      "detection_output_param.background_label_id", "detection_output_param.code_type",
      "detection_output_param.keep_top_k", "detection_output_param.confidence_threshold",
      "detection_output_param.nms_param.nms_threshold", "detection_output_param.nms_param.top_k"}},
    {"PriorBox",
     {"prior_box_param.min_size", "prior_box_param.variance", "prior_box_param.flip",
      "prior_box_param.clip"}},
    {"PriorBoxClustered",
     {"prior_box_param.width", "prior_box_param.height", "prior_box_param.variance",
      "prior_box_param.clip"}},
    {"Proposal",
     {"proposal_param.feat_stride", "proposal_param.base_size", "proposal_param.min_size",
      "proposal_param.ratio", "proposal_param.scale", "proposal_param.pre_nms_topn",
      "proposal_param.post_nms_topn", "proposal_param.nms_thresh"}},
    {"PSROIPooling",
     {"psroi_pooling_param.spatial_scale", "psroi_pooling_param.output_dim",
      "psroi_pooling_param.group_size"}},
    {"ROIPooling",
     {"roi_pooling_param.spatial_scale", "roi_pooling_param.pooled_h",
      "roi_pooling_param.pooled_w"}},
    {"Normalize",
     {"norm_param.across_spatial", "norm_param.channel_shared", "norm_param.scale_filler"}},
    {"Permute", {"permute_param.order"}},
    {"Reshape", {"reshape_param.shape"}},
    {"Crop", {"crop_param.axis", "crop_param.offset"}},
    {"ShuffleChannel", {"shuffle_channel_param.group"}},
    {"Convolution",
     {"convolution_param.num_output", "convolution_param.kernel_size|convolution_param.kernel_h"}},
    {"Deconvolution",
     {"convolution_param.num_output", "convolution_param.kernel_size|convolution_param.kernel_h"}},
    {"InnerProduct", {"inner_product_param.num_output"}},
    {"Pooling",
     {"pooling_param.pool",
      "pooling_param.kernel_size|pooling_param.kernel_h|pooling_param.global_pooling"}},
    {"LRN", {"lrn_param.local_size", "lrn_param.alpha", "lrn_param.beta"}},
    {"LSTM", {"recurrent_param.num_output"}},
    {"Input", {"input_param.shape"}}};

/// Whether the field at the path "a.b" is set.
bool stands(const Message& message, const std::string& path) {
  const size_t dot = path.find('.');
  const auto* field = message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
  if (field == nullptr) return false;
  const auto& reflection = *message.GetReflection();
  if (field->is_repeated()) return reflection.FieldSize(message, field) > 0;
  if (!reflection.HasField(message, field)) return false;
  return dot == std::string::npos ||
         stands(reflection.GetMessage(message, field), path.substr(dot + 1));
}

/// "DetectionOutput 'out': detection_output_param.share_location", a line each.
std::string missing(const NetParameter& net) {
  std::string lines;
  for (const LayerParameter& layer : net.layer()) {
    const auto [begin, end] = kAsked.equal_range(layer.type());
    for (auto asked = begin; asked != end; ++asked) {
      for (const std::string& fields : asked->second) {
        bool any = false;
        for (size_t at = 0; !any && at <= fields.size();) {
          const size_t bar = std::min(fields.find('|', at), fields.size());
          any = stands(layer, fields.substr(at, bar - at));
          at = bar + 1;
        }
        if (!any) lines += layer.type() + " '" + layer.name() + "': " + fields + "\n";
      }
    }
    // OpenCV takes no one shape for several tops.
    if (layer.type() == "Input" && layer.input_param().shape_size() != layer.top_size())
      lines += "Input '" + layer.name() + "': a shape for each top\n";
  }
  return lines;
}

TEST(OtherReaders, DeployFilesNameWhatTheyAskFor) {
  int files = 0, detectors = 0;
  for (const auto& model : fs::directory_iterator(test::source_path("models"))) {
    const fs::path path = model.path() / "deploy.prototxt";
    if (!fs::exists(path)) continue;
    NetParameter net;
    read_text_proto(path.string(), net);
    EXPECT_EQ(missing(net), "") << path;
    ++files;
    for (const LayerParameter& layer : net.layer())
      detectors += layer.type() == "DetectionOutput" ? 1 : 0;
  }
  EXPECT_GT(files, 40);
  EXPECT_GE(detectors, 4);
}

/// Those for training differ by nothing that a net for inference needs.
TEST(OtherReaders, NetsForTrainingNameTheSameOfDetections) {
  for (const char* model : {"digits_ssd", "ssd300_vgg", "ssd_mobilenet", "ssd_shapes"}) {
    NetParameter net;
    read_text_proto((test::source_path("models") / model / "train_val.prototxt").string(), net);
    std::string lines;
    for (const LayerParameter& layer : net.layer()) {
      if (layer.type() != "DetectionOutput" && layer.type() != "PriorBox") continue;
      NetParameter one;
      *one.add_layer() = layer;
      lines += missing(one);
    }
    EXPECT_EQ(lines, "") << model;
  }
}

TEST(OtherReaders, DefaultsAreWrittenOut) {
  NetParameter net;
  parse_text_proto(R"(
    layer { name: "prior" type: "PriorBox" prior_box_param { min_size: 30 } }
    layer { name: "one" type: "PriorBox" prior_box_param { min_size: 9 clip: true flip: false variance: 0.2 offset: 0 } }
    layer { name: "given" type: "PriorBoxClustered" prior_box_param { width: 3 height: 4 } }
    layer { name: "rois" type: "Proposal" }
    layer { name: "out" type: "DetectionOutput" detection_output_param { num_classes: 3 confidence_threshold: 0.1 } }
    layer { name: "set" type: "DetectionOutput" detection_output_param { num_classes: 3 confidence_threshold: 0 share_location: false background_label_id: -1
      code_type: CENTER_SIZE keep_top_k: 5 nms_param { nms_threshold: 0.45 top_k: 7 } } })",
                   "net.prototxt", net);
  EXPECT_NE(missing(net), "");
  const std::string given = prototxt_of(net.layer(5));
  EXPECT_EQ(
      write_out_defaults(net),
      (std::vector<std::string>{
          "layer 'prior' (PriorBox): flip: true, clip: false, offset: 0.5, variance: 0.1 written "
          "out",
          "layer 'given' (PriorBoxClustered): clip: false, offset: 0.5, variance: 0.1 written out",
          "layer 'rois' (Proposal): feat_stride: 16, base_size: 16, min_size: 16, "
          "pre_nms_topn: 6000, post_nms_topn: 300, nms_thresh: 0.7, ratio: 0.5, ratio: 1, "
          "ratio: 2, scale: 8, scale: 16, scale: 32 written out",
          "layer 'out' (DetectionOutput): share_location: true, background_label_id: 0, "
          "code_type: CORNER, keep_top_k: -1, nms_param { nms_threshold: 0.3, top_k: -1 } written "
          "out"}));
  EXPECT_EQ(missing(net), "");
  EXPECT_TRUE(write_out_defaults(net).empty());
  EXPECT_EQ(prototxt_of(net.layer(5)), given);
  const PriorBoxParameter& prior = net.layer(0).prior_box_param();
  EXPECT_TRUE(prior.flip());
  EXPECT_FALSE(prior.clip());
  ASSERT_EQ(prior.variance_size(), 1);
  EXPECT_EQ(prior.variance(0), 0.1F);
  const PriorBoxParameter& one = net.layer(1).prior_box_param();
  EXPECT_TRUE(one.clip() && !one.flip() && one.variance_size() == 1 && one.offset() == 0);
  EXPECT_FALSE(net.layer(2).prior_box_param().has_flip());
  const ProposalParameter& proposal = net.layer(3).proposal_param();
  ASSERT_EQ(proposal.ratio_size(), 3);
  EXPECT_EQ(proposal.scale(2), 32);
  const DetectionOutputParameter& out = net.layer(4).detection_output_param();
  EXPECT_TRUE(out.share_location());
  EXPECT_EQ(out.background_label_id(), 0);
  EXPECT_EQ(out.code_type(), PriorBoxParameter::CORNER);
  EXPECT_EQ(out.keep_top_k(), -1);
  EXPECT_EQ(out.nms_param().top_k(), -1);
  EXPECT_EQ(out.nms_param().nms_threshold(), 0.3F);
}

}  // namespace
}  // namespace crema
