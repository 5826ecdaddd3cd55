// The table of settings_effect_test.cpp.
#include <sstream>
#include <string_view>

#include "settings_effect.hpp"

namespace crema::test {
namespace {

using Trials = std::vector<SettingsTrial>;

/// Fields that choose an engine, or say how fast something is to be done.
void add_without_results(Trials& all) {
  const char* const choice = "engine choice of Caffe or of a fork; changes no result";
  for (const char* message :
       {"BatchNorm", "BN", "Concat", "Convolution", "Dropout", "Eltwise", "InnerProduct", "LRN",
        "Pooling", "ReLU", "Sigmoid", "Softmax", "Split", "SPP", "TanH"}) {
    all.push_back({.field = text(message, "Parameter.engine"), .because = choice});
  }
  for (const char* field : {"force_nd_im2col", "cudnn_convolution_algo_seeker",
                            "conv_algos_override", "conv_algorithm"}) {
    all.push_back({.field = text("ConvolutionParameter.", field), .because = choice});
  }
  all.push_back({.field = "ConcatParameter.per_fla_fuse", .because = "fusion in a fork"});
  all.push_back({.field = "BatchNormParameter.sync", .because = "one process trains"});
  all.push_back({.field = "ReLUParameter.fuse", .because = "fusion in a fork"});
  for (const char* field : {"prefetch", "threads", "lock", "parser_threads", "cache", "precache"})
    all.push_back({.field = text("DataParameter.", field), .because = "how records are read"});
  for (const char* field : {"threads", "cache", "precache"})
    all.push_back({.field = text("ImageDataParameter.", field), .because = "how files are read"});
  all.push_back({.field = "WindowDataParameter.cache_images", .because = "how files are read"});
}

void add_fillers(Trials& all) {
  all.push_back({.field = "FillerParameter.type", .set = "type: 'uniform' min: 0.5"});
  all.push_back({.field = "FillerParameter.value", .given = "type: 'constant'"});
  for (const char* bound : {"min", "max"})
    all.push_back({.field = text("FillerParameter.", bound), .given = "type: 'uniform'"});
  for (const char* number : {"mean", "std", "sparse"})
    all.push_back({.field = text("FillerParameter.", number), .given = "type: 'gaussian'"});
  all.push_back({.field = "FillerParameter.variance_norm", .given = "type: 'xavier'"});
  all.push_back({.field = "FillerParameter.scale", .given = "type: 'gaussian'"});
  for (const char* type : {"CRFLoss", "CRFDecoder"}) {
    all.push_back({.field = text(type, " crf_loss_param.transition_filler.variance_norm"),
                   .because = "A is square"});
    all.push_back({.field = text(type, " crf_loss_param.boundary_filler"),
                   .given = "crf_loss_param { boundary_term: true }"});
  }
  for (const char* field : {"scale_filler", "shift_filler"})
    all.push_back({.field = text("BN bn_param.", field), .base = "BN of scale and shift"});
  all.push_back({.field = "BN bn_param.bn_mode", .base = "BN of scale and shift"});
  for (const char* field : {"scale_filler", "bias_filler"}) {
    all.push_back({.field = text("BatchNormParameter.", field), .given = "scale_bias: true"});
    all.push_back({.field = text("InstanceNormParameter.", field),
                   .given = "scale_term: true bias_term: true"});
  }
  all.push_back({.field = "BatchNormParameter.filler", .given = "use_weight_bias: true"});
  all.push_back({.field = "BatchNormParameter.use_weight_bias", .given = "bias_term: true"});
  all.push_back({.field = "BatchNormParameter.bias_term", .given = "use_weight_bias: true"});
  all.push_back({.field = "Normalize norm_param.scale_filler",
                 .given = "norm_param { channel_shared: false }"});
  for (const char* type : {"LocallyConnected", "Local"}) {
    all.push_back({.field = text(type, " local_param.bias_filler.variance_norm"),
                   .because = "both fans of the bias are alike"});
  }
  all.push_back({.field = "ScaleParameter.bias_filler", .given = "bias_term: true"});
}

void add_losses(Trials& all) {
  const char* const weights =
      "class_weighting: 2 class_weighting: 3 class_weighting: 1 class_weighting: 4 "
      "class_weighting: 5 class_weighting: 6";
  all.push_back({.field = "LossParameter.normalization", .given = "ignore_label: 1"});
  all.push_back({.field = "LossParameter.normalization=VALID", .given = "normalize: false"});
  all.push_back(
      {.field = "LossParameter.normalize", .set = "normalize: false", .given = "ignore_label: 1"});
  all.push_back({.field = "SigmoidCrossEntropyLoss loss_param.normalization=BATCH_SIZE",
                 .given = "loss_param { normalize: true }"});
  all.push_back({.field = "SigmoidCrossEntropyLoss loss_param.normalize",
                 .set = "loss_param { normalize: true }"});
  all.push_back({.field = "SmoothL1LossOHEM loss_param.normalization=FULL",
                 .given = "loss_param { normalize: false }"});
  all.push_back(
      {.field = "LossParameter.pre_fixed_normalizer", .given = "normalization: PRE_FIXED"});
  all.push_back({.field = "LossParameter.class_weighting",
                 .set = weights,
                 .given = "weight_by_label_freqs: true"});
  for (const char* type : {"CRFLoss", "CTCLoss", "CtcLoss", "WarpCTCLoss", "SmoothL1LossOHEM"}) {
    all.push_back({.field = text(type, " loss_param.class_weighting"),
                   .set = "loss_param { class_weighting: 2 }"});
  }
  all.push_back({.field = "SigmoidCrossEntropyLoss loss_param.weight_by_label_freqs",
                 .set = "loss_param { weight_by_label_freqs: true }",
                 .given = text("loss_param { ", weights, " }")});
  all.push_back({.field = "CenterLossParameter.num_output", .set = "num_output: 9"});
  all.push_back({.field = "MultiBoxLoss loss_param.class_weighting",
                 .set = "loss_param { class_weighting: 2 class_weighting: 3 class_weighting: 1 }",
                 .given = "loss_param { weight_by_label_freqs: true }"});
  all.push_back({.field = "SigmoidCrossEntropyLoss loss_param.class_weighting",
                 .set = text("loss_param { weight_by_label_freqs: true ", weights, " }")});
  for (const char* type : {"SoftmaxWithLoss", "SoftmaxWithLossOHEM", "FocalLoss"}) {
    all.push_back({.field = text(type, " softmax_param.axis"),
                   .set = "softmax_param { axis: 0 }",
                   .base = text(type, " of a cube")});
  }
  all.push_back({.field = "InfogainLoss softmax_param.axis",
                 .because = "infogain_loss_param has the axis of this loss"});
  all.push_back({.field = "InfogainLossParameter.source",
                 .set = "source: '$DATA/other_matrix.binaryproto'",
                 .base = "InfogainLoss of a file"});
  for (const char* field :
       {"InfogainLossParameter", "AccuracyParameter", "ConfusionMatrixParameter"}) {
    const std::string type(field, std::string_view(field).size() - 9);
    all.push_back({.field = text(field, ".axis"), .set = "axis: 0", .base = type + " of a cube"});
  }
  all.push_back({.field = "FocalLossParameter.type=LINEAR", .error = "type LINEAR is not there"});
  all.push_back({.field = "FocalLossParameter.background_label_id",
                 .set = "background_label_id: 1",
                 .given = "activation: SIGMOID"});
  all.push_back({.field = "AccuracyParameter.ignore_label", .given = "top_k: 3"});
  all.push_back({.field = "CenterLossParameter.axis", .set = "axis: 0", .error = "samples, but"});
  all.push_back({.field = "ContrastiveLossParameter.margin", .set = "margin: 4"});
  all.push_back({.field = "ContrastiveLossParameter.legacy_version", .given = "margin: 40"});
  all.push_back({.field = "CTCLossParameter.alphabet_size", .error = "alphabet_size"});
  all.push_back({.field = "RegionLossParameter.side", .because = "the bottom has the size"});
  all.push_back({.field = "Yolov3Parameter.side", .because = "the bottom has the size"});
  for (const char* field : {"jitter", "random", "absolute"})
    all.push_back({.field = text("RegionLossParameter.", field), .because = "Darknet's data"});
  for (const char* field : {"RegionLossParameter.num_class", "Yolov3Parameter.num_class",
                            "RegionDetectionOutputParameter.num_classes",
                            "Yolov3DetectionOutputParameter.num_classes"}) {
    all.push_back(
        {.field = field,
         .set = text(std::string_view(field).substr(std::string_view(field).find('.') + 1), ": 3"),
         .error = "3 classes"});
  }
}

void add_windows(Trials& all) {
  for (const char* type :
       {"Convolution", "Deconvolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Im2col"}) {
    for (const char* field : {"kernel_h", "kernel_w"}) {
      all.push_back({.field = text(type, " convolution_param.", field),
                     .set = text("convolution_param { ", field, ": 1 }"),
                     .base = text(type, " of kernel_h")});
    }
  }
  for (const char* type :
       {"Convolution", "Deconvolution", "ConvolutionDepthwise", "DepthwiseConvolution"}) {
    all.push_back({.field = text(type, " convolution_param.negative_slope"),
                   .set = "convolution_param { negative_slope: 0.5 }",
                   .given = "convolution_param { relu: true }"});

    all.push_back({.field = text(type, " convolution_param.fusion_type"), .error = "SUM_FUSION"});
  }
  for (const char* type : {"ConvolutionDepthwise", "DepthwiseConvolution"}) {
    all.push_back({.field = text(type, " convolution_param.num_output"),
                   .set = "convolution_param { num_output: 4 }"});
  }
  for (const char* field : {"num_output", "bias_term", "group", "weight_filler", "bias_filler",
                            "relu", "negative_slope", "fusion_type", "coeff"}) {
    all.push_back({.field = text("Im2col convolution_param.", field),
                   .because = "of a product with weights"});
  }
  // The offsets have the size of the top.
  for (const auto& [field, value] :
       {std::pair{"pad", "1"}, std::pair{"kernel_size", "2"}, std::pair{"stride", "2"},
        std::pair{"dilation", "2"}, std::pair{"pad_h", "1"}, std::pair{"pad_w", "1"},
        std::pair{"stride_h", "2 stride_w: 1"}, std::pair{"stride_w", "2 stride_h: 1"},
        std::pair{"deformable_group", "2"}}) {
    all.push_back({.field = text("DeformableConvolutionParameter.", field),
                   .set = text(field, ": ", value),
                   .error = "has to be"});
  }
  for (const char* field : {"kernel_h", "kernel_w"}) {
    all.push_back({.field = text("DeformableConvolutionParameter.", field),
                   .set = text(field, ": 2"),
                   .error = "has to be",
                   .base = "DeformableConvolution of kernel_h"});
  }
  for (const char* field : {"output_dim", "group_size"}) {
    all.push_back({.field = text("PSROIAlignParameter.", field),
                   .set = text(field, ": 3"),
                   .error = text(field, " 3")});
    if (std::string_view(field) == "group_size") all.back().error = "times group_size 3";
  }
  all.push_back({.field = "InnerProductParameter.negative_slope", .given = "relu: true"});
  for (const char* type : {"LocallyConnected", "Local"}) {
    for (const char* field : {"kernel_h", "kernel_w"}) {
      all.push_back({.field = text(type, " local_param.", field),
                     .set = text("local_param { ", field, ": 1 }"),
                     .base = text(type, " of kernel_h")});
    }
  }
  all.push_back(
      {.field = "LocallyConnectedParameter.stride_h", .given = "stride_h: 1 stride_w: 1"});
  all.push_back(
      {.field = "LocallyConnectedParameter.stride_w", .given = "stride_h: 1 stride_w: 1"});
  for (const char* field : {"pad_h", "pad_w"})
    all.push_back({.field = text("PoolingParameter.", field), .given = "pad_h: 0 pad_w: 0"});
  for (const char* field : {"stride_h", "stride_w"})
    all.push_back({.field = text("PoolingParameter.", field), .given = "stride_h: 1 stride_w: 1"});
  for (const char* field : {"kernel_h", "kernel_w"})
    all.push_back({.field = text("PoolingParameter.", field), .base = "Pooling of kernel_h"});
  for (const char* field : {"pad_3d", "kernel_size_3d", "stride_3d"}) {
    all.push_back({.field = text("PoolingParameter.", field),
                   .set = text(field, ": 1 ", field, ": 1 ", field, ": 2"),
                   .base = "Pooling of volumes"});
  }
  all.push_back({.field = "PoolingParameter.global_pooling", .error = "global_pooling"});
  all.push_back({.field = "PoolingParameter.axis", .error = "channels are axis 1"});
  for (const char* field : {"round_mode", "ceil_mode", "torch_pooling"})
    all.push_back({.field = text("PoolingParameter.", field), .given = "stride: 2"});
  all.push_back({.field = "PoolingParameter.avg_include_pad", .given = "pool: AVE pad: 1"});
  for (const char* field :
       {"unpool=AVE", "pad", "pad_h", "pad_w", "unpool_size", "unpool_h", "unpool_w"}) {
    all.push_back(
        {.field = text("UnpoolingParameter.", field), .base = "Unpooling without places"});
  }
  all.push_back({.field = "UnpoolingParameter.unpool=TILE",
                 .given = "unpool: AVE",
                 .base = "Unpooling without places"});
}

void add_shapes(Trials& all) {
  all.push_back({.field = "EltwiseParameter.coeff", .set = "coeff: 2 coeff: -1"});
  all.push_back({.field = "EltwiseParameter.stable_prod_grad", .given = "operation: PROD"});
  all.push_back({.field = "TopKParameter.sorted", .because = "they are sorted anyway"});
  all.push_back({.field = "CropParameter.offset", .set = "offset: 1"});
  all.push_back({.field = "DropoutParameter.random_seed", .set = "random_seed: 5"});
  for (const char* field : {"num", "channels", "height", "width"}) {
    all.push_back({.field = text("DummyDataParameter.", field),
                   .error = field,
                   .base = "DummyData of sizes"});
  }
  all.push_back({.field = "EmbedParameter.input_dim", .set = "input_dim: 9"});
  for (const char* type : {"LSTM", "RNN", "GRU"}) {
    all.push_back(
        {.field = text(type, " recurrent_param.expose_hidden"), .error = "bottoms, but takes"});
  }
  all.push_back(
      {.field = "RecurrentParameter.debug_info", .because = "there is no unrolled net to show"});
  all.push_back({.field = "InterpParameter.zoom_factor", .base = "Interp by factors"});
  all.push_back({.field = "InterpParameter.shrink_factor", .base = "Interp by factors"});
  all.push_back({.field = "MarginInnerProductParameter.type=DOUBLE", .given = "type: SINGLE"});
  all.push_back({.field = "MarginInnerProductParameter.num_output", .set = "num_output: 9"});
  all.push_back(
      {.field = "MarginInnerProductParameter.axis", .set = "axis: 0", .error = "samples, but"});
  all.push_back({.field = "PSROIPoolingParameter.output_dim",
                 .set = "output_dim: 3",
                 .error = "output_dim 3"});
  all.push_back({.field = "PSROIPoolingParameter.group_size",
                 .set = "group_size: 3",
                 .error = "group_size 3"});
  all.push_back({.field = "ROIPoolingParameter.pooled_size", .base = "ROIPooling of pooled_size"});
  all.push_back({.field = "ReshapeParameter.pixelshuffler", .error = "pixelshuffler"});
  all.push_back({.field = "ResizeLayerParameter.scale", .base = "Resize by factors"});
  for (const char* field : {"scale_h", "scale_w"})
    all.push_back({.field = text("ResizeLayerParameter.", field), .base = "Resize by two factors"});
  for (const char* field : {"height", "width"}) {
    all.push_back({.field = text("ResizeNearestNeighborParameter.scaling_factor_", field),
                   .base = "ResizeNearestNeighbor by factors"});
  }
  all.push_back({.field = "SliceParameter.slice_point", .set = "slice_point: 1"});
  all.push_back({.field = "SpatialTransformerParameter.transform_type",
                 .set = "transform_type: 'projective'",
                 .error = "transform_type"});
  all.push_back({.field = "SpatialTransformerParameter.sampler_type",
                 .set = "sampler_type: 'nearest'",
                 .error = "sampler_type"});
  for (const char* field : {"1_1", "1_2", "1_3", "2_1", "2_2", "2_3"})
    all.push_back({.field = text("SpatialTransformerParameter.theta_", field), .error = "theta_"});
  all.push_back({.field = "TransposeParameter.dim", .error = "dim names axis"});
  for (const char* field : {"pad_out_h", "pad_out_w", "upsample_h", "upsample_w"}) {
    all.push_back(
        {.field = text("UpsampleParameter.", field),
         .set = text(field, std::string_view(field).starts_with("pad") ? ": true" : ": 7"),
         .base = std::string_view(field).starts_with("pad") ? "Upsample of few places"
                                                            : "Upsample to a size"});
  }
  all.push_back({.field = "HDF5OutputParameter.file_name", .set = "file_name: '$OUT/b.h5'"});
  all.push_back({.field = "HDF5DataParameter.source", .set = "source: '$DATA/half.txt'"});
}

void add_detectors(Trials& all) {
  all.push_back({.field = "MultiBoxLossParameter.num_classes",
                 .set = "num_classes: 4",
                 .error = "num_classes"});
  all.push_back({.field = "MultiBoxLossParameter.match_type", .given = "overlap_threshold: 0.01"});
  all.push_back({.field = "MultiStageMeanfieldParameter.threshold", .because = "as published"});
  all.push_back({.field = "MultiBoxLossParameter.share_location", .error = "share_location"});
  all.push_back(
      {.field = "MultiBoxLossParameter.background_label_id", .error = "background_label_id"});
  all.push_back({.field = "MultiBoxLossParameter.do_neg_mining", .set = "do_neg_mining: false"});
  all.push_back({.field = "MultiBoxLossParameter.nms_param",
                 .given = "mining_type: HARD_EXAMPLE nms_param { nms_threshold: 0.3 }"});
  for (const char* field : {"sample_size", "use_prior_for_nms"}) {
    all.push_back({.field = text("MultiBoxLossParameter.", field),
                   .given = "mining_type: HARD_EXAMPLE nms_param { nms_threshold: 0.1 }"});
  }
  all.push_back({.field = "NonMaximumSuppressionParameter.eta",
                 .set = "eta: 0.01",
                 .given = "nms_threshold: 0.9"});
  all.push_back({.field = "DetectionOutputParameter.num_classes",
                 .set = "num_classes: 4",
                 .error = "must have 4 scores (num_classes: 4)"});
  all.push_back({.field = "DetectionOutputParameter.share_location",
                 .error = "share_location: false, num_classes: 3"});
  const std::string files =
      "save_output_param { output_directory: '$OUT' output_name_prefix: 'a' output_format: 'VOC' "
      "label_map_file: '$DATA/labels.prototxt' name_size_file: '$DATA/sizes.txt' "
      "num_test_image: 2 }";
  all.push_back({.field = "DetectionOutputParameter.save_output_param", .given = files});
  all.push_back(
      {.field = "SaveOutputParameter.output_directory", .set = "output_directory: '$OUT/in'"});
  all.push_back(
      {.field = "SaveOutputParameter.output_name_prefix", .set = "output_name_prefix: 'b'"});
  all.push_back({.field = "SaveOutputParameter.output_format", .set = "output_format: 'COCO'"});
  all.push_back({.field = "SaveOutputParameter.label_map_file",
                 .set = "label_map_file: '$DATA/other_labels.prototxt'"});
  all.push_back({.field = "SaveOutputParameter.name_size_file",
                 .set = "name_size_file: '$DATA/other_sizes.txt'"});
  all.push_back({.field = "SaveOutputParameter.num_test_image", .set = "num_test_image: 1"});
  all.push_back({.field = "DetectionOutputParameter.visualize_threshold",
                 .given = "visualize: true",
                 .because = "no window"});
  all.push_back({.field = "DetectionOutputParameter.save_file",
                 .set = "save_file: 'a'",
                 .because = "no window"});
  all.push_back({.field = "DetectionEvaluateParameter.num_classes", .set = "num_classes: 4"});
  all.push_back(
      {.field = "DetectionEvaluateParameter.background_label_id", .error = "background_label_id"});
  all.push_back({.field = "DetectionEvaluateParameter.name_size_file",
                 .set = "name_size_file: '$DATA/three_sizes.txt'",
                 .given = "overlap_threshold: 0.6"});
  all.push_back({.field = "DetectionEvaluateParameter.resize_param",
                 .given = "name_size_file: '$DATA/three_sizes.txt' overlap_threshold: 0.6"});
  // What undoes a resizing reads the sides alone.
  for (const char* type : {"DetectionEvaluate detection_evaluate_param.",
                           "DetectionOutput detection_output_param.save_output_param."}) {
    for (const char* field : {"prob", "pad_mode", "pad_value", "interp_mode"}) {
      all.push_back(
          {.field = text(type, "resize_param.", field), .because = "pixels are not resized here"});
    }
    const auto whole = [&](const std::string& prototxt) {
      const std::string name(type + std::string_view(type).find(' ') + 1);
      std::string around, close;
      std::istringstream parts(name);
      for (std::string part; std::getline(parts, part, '.');) {
        around += part + " { ";
        close += " }";
      }
      return text(around, "resize_param { ", prototxt, " }", close);
    };
    for (const char* mode : {"FIT_SMALL_SIZE", "FIT_LARGE_SIZE_AND_PAD"}) {
      all.push_back({.field = text(type, "resize_param.resize_mode=", mode),
                     .given = whole("height: 300 width: 90 height_scale: 200 width_scale: 100")});
    }
    for (const char* side : {"height", "width"}) {
      all.push_back({.field = text(type, "resize_param.", side),
                     .set = whole(text(side, ": 60")),
                     .given = whole("resize_mode: FIT_LARGE_SIZE_AND_PAD height: 300 width: 300")});
      all.push_back({.field = text(type, "resize_param.", side, "_scale"),
                     .set = whole(text(side, "_scale: 100")),
                     .given = whole("resize_mode: FIT_SMALL_SIZE height_scale: 300 "
                                    "width_scale: 300 height: 300 width: 300")});
    }
  }
  all.push_back({.field = "PriorBoxParameter.max_size", .set = "max_size: 9"});
  all.push_back({.field = "PriorBoxParameter.flip", .given = "aspect_ratio: 2"});
  all.push_back({.field = "PriorBoxParameter.clip", .given = "offset: 0"});
  all.push_back({.field = "PriorBoxClustered prior_box_param.clip",
                 .given = "prior_box_param { offset: 0 }"});
  for (const char* pair : {"img", "step"}) {
    for (const char* axis : {"_h", "_w"}) {
      all.push_back({.field = text("PriorBoxParameter.", pair, axis),
                     .given = text(pair, "_h: 30 ", pair, "_w: 30")});
    }
  }
  for (const char* field : {"width", "height"}) {
    all.push_back({.field = text("PriorBoxClustered prior_box_param.", field),
                   .set = "prior_box_param { width: 5 height: 5 }"});
  }
  all.push_back({.field = "ProposalParameter.min_size", .set = "min_size: 30"});
  for (const char* field : {"ratio", "scale"}) {
    all.push_back(
        {.field = text("ProposalParameter.", field), .error = "anchors (ratio times scale)"});
  }
  all.push_back({.field = "RegionLossParameter.softmax_tree",
                 .set = "softmax_tree: 'a'",
                 .error = "softmax_tree"});
  all.push_back(
      {.field = "RegionLossParameter.class_map", .set = "class_map: 'a'", .error = "class_map"});
  for (const char* field : {"RegionLossParameter.num", "Yolov3Parameter.num"})
    all.push_back({.field = field, .set = "num: 3", .error = "num is 3"});
  all.push_back({.field = "RegionDetectionOutputParameter.num_box",
                 .set = "num_box: 3",
                 .error = "num_box is 3"});
  all.push_back({.field = "Yolov3DetectionOutputParameter.num_box",
                 .set = "num_box: 2",
                 .error = "2 anchor boxes"});
}

void add_sources(Trials& all) {
  all.push_back({.field = "DataParameter.source", .set = "source: '$DATA/other'"});
  all.push_back({.field = "AnnotatedData data_param.source",
                 .set = "data_param { source: '$DATA/other_boxes' }"});
  all.push_back({.field = "DataParameter.backend=LMDB",
                 .given = "backend: IMAGE_LIST",
                 .base = "Data of a list"});
  all.push_back({.field = "AnnotatedData data_param.backend",
                 .set = "data_param { backend: IMAGE_LIST }",
                 .error = "backend"});
  all.push_back({.field = "DataParameter.backend=IMAGE_LIST", .error = "cannot read the list"});
  all.push_back({.field = "DataParameter.backend=FOLDER", .error = "a folder of images"});
  all.push_back({.field = "DataParameter.backend=TAR", .error = "tar"});
  for (const char* message :
       {"DataParameter", "ImageDataParameter", "DenseImageDataParameter", "WindowDataParameter"}) {
    all.push_back(
        {.field = text(message, ".mean_file"), .set = "mean_file: '$DATA/mean.binaryproto'"});
  }
  all.push_back({.field = "DataParameter.force_encoded_color", .base = "Data of gray images"});
  all.push_back({.field = "AnnotatedData data_param.force_encoded_color",
                 .base = "AnnotatedData of gray images"});
  all.push_back({.field = "DataParameter.on_bad_record",
                 .set = "on_bad_record: FAIL",
                 .error = "cannot be decoded",
                 .base = "Data of bad images"});
  all.push_back({.field = "AnnotatedData data_param.on_bad_record",
                 .set = "data_param { on_bad_record: FAIL }",
                 .error = "is a Datum",
                 .base = "AnnotatedData of bad records"});
  all.push_back({.field = "DataParameter.root_folder",
                 .set = "root_folder: '$DATA/other_images'",
                 .base = "Data of a list"});
  all.push_back({.field = "DataParameter.class_names",
                 .set = "class_names: '$DATA/names.txt'",
                 .base = "Data of classes"});
  all.push_back({.field = "DataParameter.side", .error = "side"});
  for (const char* message :
       {"ImageDataParameter", "DenseImageDataParameter", "WindowDataParameter"}) {
    all.push_back(
        {.field = text(message, ".root_folder"), .set = "root_folder: '$DATA/other_images/'"});
  }
  for (const char* message : {"ImageDataParameter", "DenseImageDataParameter"}) {
    for (const char* side : {"new_height", "new_width"}) {
      all.push_back({.field = text(message, ".", side),
                     .set = text(side, ": 9"),
                     .given = "new_height: 10 new_width: 14"});
    }
  }
  all.push_back({.field = "RandomResizeParameter.max_size", .set = "max_size: 11"});
  all.push_back({.field = "ImageDataParameter.source", .set = "source: '$DATA/other_list.txt'"});
  all.push_back(
      {.field = "DenseImageDataParameter.source", .set = "source: '$DATA/other_dense.txt'"});
  all.push_back(
      {.field = "WindowDataParameter.source", .set = "source: '$DATA/other_windows.txt'"});
  all.push_back({.field = "WindowDataParameter.crop_mode", .set = "crop_mode: 'square'"});
  all.push_back({.field = "ImageDataParameter.on_bad_record",
                 .set = "on_bad_record: FAIL",
                 .error = "missing.ppm",
                 .base = "ImageData of bad images"});
  for (const char* field : {"channels", "height", "width"})
    all.push_back(
        {.field = text("MemoryDataParameter.", field), .error = "memory_data_param asks"});
  all.push_back({.field = "AnnotatedDataParameter.label_map_file",
                 .set = "label_map_file: '$DATA/one_label.prototxt'",
                 .error = "label 2"});
  all.push_back({.field = "AnnotatedDataParameter.anno_type",
                 .set = "anno_type: BBOX",
                 .base = "AnnotatedData without a type"});

  // Steps of transform_param.
  all.push_back(
      {.field = "TransformationParameter.mean_file", .set = "mean_file: '$DATA/mean.binaryproto'"});
  all.push_back({.field = "TransformationParameter.crop_h", .given = "crop_h: 6 crop_w: 6"});
  all.push_back({.field = "TransformationParameter.crop_w", .given = "crop_h: 6 crop_w: 6"});
  const std::string crop = "crop_size: 6 ";
  all.push_back({.field = "TransformationParameter.resize_param",
                 .given = crop + "resize_param { height: 9 width: 14 }"});
  for (const char* type : {"Data", "AnnotatedData", "ImageData", "MemoryData", "DenseImageData"}) {
    const std::string field = text(type, " transform_param.resize_param.");
    for (const char* side : {"height", "width"})
      all.push_back({.field = field + side, .set = text(side, ": 8"), .here = true});
    for (const char* pad : {"pad_mode", "pad_value"}) {
      all.push_back(
          {.field = field + pad, .given = "resize_mode: FIT_LARGE_SIZE_AND_PAD", .here = true});
    }
    all.push_back({.field = field + "interp_mode", .given = "height: 20 width: 24", .here = true});
    // Without a mode, it is LINEAR, and as AREA where images are shrunk.
    for (const char* mode : {"LINEAR", "AREA"}) {
      all.push_back({.field = text(field, "interp_mode=", mode),
                     .given = "interp_mode: NEAREST",
                     .here = true});
    }
    for (const char* drawn : {"random_resize_param", "random_aspect_ratio_param"}) {
      const std::string mode = text(type, " transform_param.", drawn, ".resize_param.interp_mode");
      all.push_back({.field = mode, .given = "interp_mode: NEAREST", .here = true});
      all.push_back({.field = mode + "=NEAREST"});
    }
  }
  all.push_back({.field = "TransformationParameter.random_crop_param", .given = crop});
  all.push_back({.field = "TransformationParameter.random_aspect_ratio_param", .given = crop});
  all.push_back({.field = "TransformationParameter.random_resize_param",
                 .given = crop + "random_resize_param { min_size: 8 max_size: 15 }"});
  for (const char* bound : {"lower", "upper"}) {
    all.push_back({.field = text("TransformationParameter.img_rand_resize_", bound),
                   .set = text("img_rand_resize_", bound, ": 10"),
                   .given = crop + "img_rand_resize_lower: 8 img_rand_resize_upper: 14"});
  }
  all.push_back({.field = "TransformationParameter.interpolation_algo_down",
                 .given = crop + "img_rand_resize_lower: 7 img_rand_resize_upper: 8 "
                                 "interpolation_algo_down: INTER_NEAREST"});
  all.push_back({.field = "TransformationParameter.interpolation_algo_up",
                 .given = crop + "img_rand_resize_lower: 20 img_rand_resize_upper: 24"});
  all.push_back({.field = "TransformationParameter.rotate_param",
                 .given = "rotate_param { max_degrees: 20 }"});
  all.push_back({.field = "RotateParameter.fill", .set = "fill: 90"});
  all.push_back({.field = "TransformationParameter.expand_param",
                 .given = crop + "expand_param { max_expand_ratio: 2 }"});
  all.push_back({.field = "ExpansionParameter.max_expand_ratio", .set = "max_expand_ratio: 3"});
  for (const char* kind : {"brightness", "hue"}) {
    for (const char* field : {"_prob", "_delta"}) {
      all.push_back({.field = text("DistortionParameter.", kind, field),
                     .given = text(kind, "_prob: 1 ", kind, "_delta: 20")});
    }
  }
  for (const char* kind : {"contrast", "saturation"}) {
    for (const char* field : {"_prob", "_lower", "_upper"}) {
      all.push_back({.field = text("DistortionParameter.", kind, field),
                     .given = text(kind, "_prob: 1 ", kind, "_lower: 0.6 ", kind, "_upper: 1.4")});
    }
  }
  all.push_back(
      {.field = "TransformationParameter.noise_param", .given = "noise_param { prob: 1 }"});
  all.push_back({.field = "NoiseParameter.prob", .given = "inverse: true"});
  all.push_back({.field = "NoiseParameter.jpeg", .set = "jpeg: 30"});
  all.push_back({.field = "NoiseParameter.saltpepper",
                 .given = "saltpepper_param { fraction: 0.5 value: 9 }"});
  all.push_back({.field = "NoiseParameter.saltpepper_param",
                 .given = "saltpepper: true saltpepper_param { fraction: 0.3 }"});
  all.push_back({.field = "TransformationParameter.mixup_param", .given = "num_labels: 3"});
  all.push_back({.field = "TransformationParameter.cutmix_param", .given = "num_labels: 3"});
  all.push_back({.field = "TransformationParameter.emit_constraint", .given = crop});
  all.push_back({.field = "EmitConstraint.emit_type", .given = "emit_overlap: 0.9"});
  all.push_back({.field = "EmitConstraint.emit_overlap", .given = "emit_type: MIN_OVERLAP"});
  for (const char* type : {"Data", "AnnotatedData"}) {
    all.push_back({.field = text(type, " transform_param.force_color"),
                   .set = "transform_param { force_color: true }",
                   .base = text(type, " of gray images")});
  }
  all.push_back({.field = "MemoryData transform_param.force_color",
                 .set = "transform_param { force_color: true }",
                 .error = "memory_data_param asks",
                 .base = "MemoryData of gray images"});
  all.push_back({.field = "WindowData transform_param.force_color",
                 .because = "windows are of three channels"});
  for (const char* type : {"Data", "AnnotatedData", "MemoryData"})
    all.push_back({.field = text(type, " transform_param.force_gray"), .error = "raw"});
  for (const char* type : {"ImageData", "DenseImageData"}) {
    const std::string settings =
        std::string_view(type) == "ImageData" ? "image_data_param" : "dense_image_data_param";
    all.push_back({.field = text(type, " transform_param.force_color"),
                   .set = "transform_param { force_color: true }",
                   .given = text(settings, " { is_color: false }"),
                   .error = "is_color"});
    all.push_back({.field = text(type, " transform_param.force_gray"), .error = "is_color"});
  }
  all.push_back({.field = "MemoryData transform_param.crop_size", .error = "behind the crop"});

  // Samplers of AnnotatedData.
  all.push_back({.field = "AnnotatedData annotated_data_param.batch_sampler",
                 .given = "transform_param { resize_param { height: 9 width: 9 } } "
                          "annotated_data_param { batch_sampler { max_sample: 1 "
                          "sampler { min_scale: 0.4 max_scale: 0.9 min_aspect_ratio: 0.8 "
                          "max_aspect_ratio: 1.2 } } }"});
  all.push_back({.field = "BatchSampler.use_original_image", .set = "use_original_image: false"});
}

}  // namespace

const Trials& settings_trials() {
  static const Trials trials = [] {
    Trials all;
    add_without_results(all);
    add_fillers(all);
    add_losses(all);
    add_windows(all);
    add_shapes(all);
    add_detectors(all);
    add_operator_trials(all);
    add_sources(all);
    return all;
  }();
  return trials;
}

}  // namespace crema::test
