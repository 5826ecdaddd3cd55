#include "analysis/prediction_heads.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "crema/error.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

bool is_one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::ranges::any_of(types, [&](const char* each) { return type == each; });
}

bool is_loss_of_boxes(const std::string& type) {
  return is_one_of(type, {"MultiBoxLoss", "RegionLoss", "Yolov3"});
}
/// Other layers with a loss_weight give something that was computed with labels.
bool names_a_loss(const std::string& type) {
  return type.ends_with("Loss") || type.ends_with("LossOHEM") || type == "Yolov3";
}
bool is_ctc(const std::string& type) {
  return is_one_of(type, {"CTCLoss", "WarpCTCLoss", "CtcLoss"});
}
/// Losses that are the same with their first two bottoms in the other order.
bool is_symmetric(const std::string& type) {
  return is_one_of(type, {"EuclideanLoss", "L1Loss", "SmoothL1Loss", "SmoothL1LossOHEM"});
}

/// Whether a net computes the value, as predictions are. Labels come from data, at most in another
/// form or on another scale. Types that are unknown here, such as those of plug-ins, compute.
bool is_computed(const LayerGraph& graph, int value) {
  const std::vector<bool> needed = graph.needed_by({value});
  for (size_t i = 0; i < needed.size(); ++i) {
    const LayerParameter& layer = graph.nodes[i].param;
    if (needed[i] && !is_source(layer) &&
        !is_one_of(layer.type(),
                   {"AbsVal", "Concat", "Crop", "Eltwise", "Exp", "Flatten", "Log", "Permute",
                    "Power", "Reshape", "Slice", "Split", "Threshold", "Tile", "Transpose"}))
      return true;
  }
  return false;
}

double weight_of(const LayerParameter& loss) {
  return loss.loss_weight_size() > 0 ? loss.loss_weight(0) : 1;
}

std::string free_name(const std::string& wanted, const std::string& other,
                      std::vector<std::string>& taken) {
  std::string name = wanted;
  if (std::ranges::count(taken, name) > 0) name = other;
  while (std::ranges::count(taken, name) > 0) name += "_";
  taken.push_back(name);
  return name;
}

LayerParameter layer_behind(const std::string& type, const std::string& bottom,
                            const std::string& name) {
  LayerParameter layer;
  layer.set_name(name);
  layer.set_type(type);
  layer.add_bottom(bottom);
  layer.add_top(name);
  return layer;
}

/// The settings of an SSD's loss that say how boxes are decoded, and what most published nets keep.
std::vector<LayerParameter> boxes_of_multibox(const LayerParameter& loss,
                                              std::vector<std::string>& taken) {
  const MultiBoxLossParameter& how = loss.multibox_loss_param();
  if (loss.bottom_size() < 3 || !how.has_num_classes())
    throw Error("layer '", loss.name(), "' (MultiBoxLoss) does not name locations, scores, prior ",
                "boxes and num_classes, of which boxes could be made");
  const std::string conf = loss.bottom(1);
  const auto name = [&](const std::string& wanted) {
    return free_name(wanted, loss.name() + "_" + wanted, taken);
  };
  std::vector<LayerParameter> layers;
  const bool logistic = how.conf_loss_type() == MultiBoxLossParameter::LOGISTIC;
  if (logistic) {
    layers.push_back(layer_behind("Sigmoid", conf, name(conf + "_sigmoid")));
  } else {
    layers.push_back(layer_behind("Reshape", conf, name(conf + "_rows")));
    BlobShape& rows = *layers.back().mutable_reshape_param()->mutable_shape();
    for (const int64_t dim : {int64_t{0}, int64_t{-1}, static_cast<int64_t>(how.num_classes())})
      rows.add_dim(dim);
    layers.push_back(layer_behind("Softmax", layers.back().top(0), name(conf + "_softmax")));
    layers.back().mutable_softmax_param()->set_axis(2);
    layers.push_back(layer_behind("Flatten", layers.back().top(0), name(conf + "_flat")));
  }
  LayerParameter boxes = layer_behind("DetectionOutput", loss.bottom(0), name("detection_out"));
  boxes.add_bottom(layers.back().top(0));
  boxes.add_bottom(loss.bottom(2));
  DetectionOutputParameter& out = *boxes.mutable_detection_output_param();
  out.set_num_classes(how.num_classes());
  out.set_share_location(how.share_location());
  out.set_background_label_id(static_cast<int>(how.background_label_id()));
  out.set_code_type(how.code_type());
  if (how.encode_variance_in_target()) out.set_variance_encoded_in_target(true);
  out.mutable_nms_param()->set_nms_threshold(0.45F);
  out.mutable_nms_param()->set_top_k(400);
  out.set_keep_top_k(200);
  out.set_confidence_threshold(0.01F);
  layers.push_back(std::move(boxes));
  return layers;
}

LayerParameter boxes_of_region(const LayerParameter& loss, const std::string& scores,
                               std::vector<std::string>& taken) {
  const RegionLossParameter& how = loss.region_loss_param();
  LayerParameter boxes = layer_behind("RegionDetectionOutput", scores,
                                      free_name("detection_out", loss.name() + "_boxes", taken));
  RegionDetectionOutputParameter& out = *boxes.mutable_region_detection_output_param();
  out.set_num_classes(static_cast<int>(how.num_class()));
  out.set_coords(static_cast<int>(how.coords()));
  out.set_num_box(static_cast<int>(how.num()));
  out.mutable_biases()->CopyFrom(how.biases());
  return boxes;
}

}  // namespace

bool is_loss(const LayerParameter& layer) {
  return names_a_loss(layer.type()) ||
         std::ranges::any_of(layer.loss_weight(), [](float weight) { return weight != 0; });
}

bool makes_boxes(const std::string& type) {
  return is_one_of(type, {"DetectionOutput", "RegionDetectionOutput", "Yolov3DetectionOutput"});
}

bool is_measure(const LayerParameter& layer) {
  const std::string& type = layer.type();
  return type.find("Accuracy") != std::string::npos ||
         is_one_of(type, {"ConfusionMatrix", "DetectionEvaluate", "EvalDetection", "Silence",
                          "HDF5Output"});
}

std::vector<PredictionHead> heads_of(const LayerGraph& graph, const NetParameter& training) {
  std::vector<PredictionHead> heads;
  const bool has_boxes = std::ranges::any_of(
      graph.nodes, [](const LayerNode& node) { return makes_boxes(node.param.type()); });
  std::set<std::string> losses;
  const auto add_loss = [&](const LayerParameter& loss, const std::vector<int>& reads) {
    if (!is_loss(loss) || reads.empty() || (has_boxes && is_loss_of_boxes(loss.type()))) return;
    losses.insert(loss.name());
    int value = reads[0], target = reads.size() > 1 ? reads[1] : -1;
    if (is_symmetric(loss.type()) && target >= 0 && !is_computed(graph, value) &&
        is_computed(graph, target))
      std::swap(value, target);
    if (names_a_loss(loss.type()) && is_computed(graph, value))
      heads.push_back({value, target, loss, weight_of(loss)});
  };
  for (const LayerNode& node : graph.nodes) {
    const LayerParameter& layer = node.param;
    if (makes_boxes(layer.type())) heads.push_back({node.makes.at(0), -1, layer, 0});
    // A decoder's sequences are what its scores are for.
    if (layer.type() == "CTCGreedyDecoder") heads.push_back({node.makes.at(0), -1, layer, 0});
    if (is_loss(layer)) {
      add_loss(layer, node.reads);
    } else if (is_measure(layer) && layer.type() != "Silence" && layer.type() != "HDF5Output" &&
               !node.reads.empty()) {
      heads.push_back({node.reads[0], node.reads.size() > 1 ? node.reads[1] : -1, layer, 0});
    }
  }
  for (const LayerParameter& layer : training.layer()) {
    if (losses.count(layer.name()) > 0 || !is_loss(layer)) continue;
    std::vector<int> reads;
    for (const std::string& bottom : layer.bottom()) {
      const int value = graph.last_of(bottom);
      if (value < 0) break;
      reads.push_back(value);
    }
    // What only the training computes is no prediction of the net.
    if (!reads.empty()) add_loss(layer, reads);
  }
  return heads;
}

std::vector<PredictionHead> main_heads(std::vector<PredictionHead> heads,
                                       std::vector<std::string>& dropped) {
  std::map<int, double> most;  // by what is compared with
  std::set<int> kept;
  for (const PredictionHead& head : heads) {
    double& weight = most[head.target];
    weight = std::max(weight, head.weight);
  }
  std::set<int> aside;  // predictions
  std::vector<PredictionHead> main;
  for (PredictionHead& head : heads) {
    if (head.weight > 0 && head.target >= 0 && head.weight < most.at(head.target) &&
        head.layer.type() != "CenterLoss") {
      dropped.push_back(head.layer.name());
      aside.insert(head.value);
    } else {
      main.push_back(std::move(head));
    }
  }
  // Tests of these, and losses that shape features beside the scores.
  const bool has_others = std::ranges::any_of(
      main, [](const PredictionHead& head) { return head.layer.type() != "CenterLoss"; });
  std::erase_if(main, [&](const PredictionHead& head) {
    return (head.weight == 0 && aside.count(head.value) > 0) ||
           (has_others && head.layer.type() == "CenterLoss");
  });
  return main;
}

std::vector<LayerParameter> output_layers(const PredictionHead& head, const LayerGraph& graph,
                                          std::vector<std::string>& taken, bool several) {
  const LayerParameter& loss = head.layer;
  const std::string& type = loss.type();
  const std::string& scores = graph.name(head.value);
  const auto name = [&] {
    const std::string own = scores + "_prob";
    return free_name(several ? own : "prob", own, taken);
  };
  if (type == "MultiBoxLoss") return boxes_of_multibox(loss, taken);
  if (type == "RegionLoss") return {boxes_of_region(loss, scores, taken)};
  const bool is_focal = type == "FocalLoss";
  const bool sigmoid =
      type == "SigmoidCrossEntropyLoss" ||
      (is_focal && loss.focal_loss_param().activation() == FocalLossParameter::SIGMOID);
  if (sigmoid) return {layer_behind("Sigmoid", scores, name())};
  if (is_one_of(type, {"SoftmaxWithLoss", "SoftmaxWithLossOHEM", "InfogainLoss"}) || is_focal) {
    LayerParameter softmax = layer_behind("Softmax", scores, name());
    if (loss.has_softmax_param() && loss.softmax_param().axis() != 1)
      softmax.mutable_softmax_param()->set_axis(loss.softmax_param().axis());
    return {softmax};
  }
  if (is_ctc(type)) {
    // Of the blank as the loss has it: the last class, or class 0 in the forks' losses.
    LayerParameter decoder = layer_behind("CTCGreedyDecoder", scores,
                                          free_name("sequences", scores + "_sequences", taken));
    if (loss.bottom_size() == 3) decoder.add_bottom(loss.bottom(1));
    const CTCLossParameter& how = loss.ctc_loss_param();
    const bool is_forks = type != "CTCLoss";
    if (how.has_blank_label()) {
      decoder.mutable_ctc_decoder_param()->set_blank_index(static_cast<int>(how.blank_label()));
    } else if (how.has_blank_index() || is_forks) {
      decoder.mutable_ctc_decoder_param()->set_blank_index(how.has_blank_index() ? how.blank_index()
                                                                                 : 0);
    }
    if (!how.ctc_merge_repeated())
      decoder.mutable_ctc_decoder_param()->set_ctc_merge_repeated(false);
    return {decoder};
  }
  return {};
}

}  // namespace crema
