#include "model/foreign_fields.hpp"

#include <algorithm>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr ForeignField kFields[] = {
    {"DataParameter", "cursor", "shuffle: true", "without it, records come in the order of keys"},
    {"DataParameter", "shuffle_buffer_size", "shuffle: true", "it mixes all records"},
    {"DataParameter", "num_threads", "threads: V"},
    {"ImageDataParameter", "num_threads", "threads: V"},
    {"ImageDataParameter", "root_dir", "root_folder: V"},
    {"TransformationParameter", "crop_height", "crop_h: V"},
    {"TransformationParameter", "crop_width", "crop_w: V"},
    {"TransformationParameter", "mean", "mean_value: V"},
    {"TransformationParameter", "is_flow", "flow: V"},
    {"TransformationParameter", "max_rotation_angle", "rotate_param { max_degrees: V }"},
    {"TransformationParameter", "max_rotate_angle", "rotate_param { max_degrees: V }"},
    {"TransformationParameter", "max_angle", "rotate_param { max_degrees: V }"},
    {"TransformationParameter", "min_side",
     "resize_param { resize_mode: FIT_SMALL_SIZE height: V width: V }"},
    {"TransformationParameter", "short_edge",
     "resize_param { resize_mode: FIT_SMALL_SIZE height: V width: V }"},
    {"TransformationParameter", "min_side_min", "img_rand_resize_lower: V"},
    {"TransformationParameter", "min_side_max", "img_rand_resize_upper: V"},
    {"TransformationParameter", "max_smooth", "blur_param { max_sigma: 2 }",
     "its sigma is in pixels, not the size of a kernel"},
    {"TransformationParameter", "smooth_filtering", "blur_param { prob: 0.5 }"},
    {"TransformationParameter", "max_brightness_shift",
     "distort_param { brightness_prob: 0.5 brightness_delta: V }"},
    {"TransformationParameter", "max_color_shift", "distort_param { hue_prob: 0.5 hue_delta: V }"},
    {"TransformationParameter", "min_contrast",
     "distort_param { contrast_prob: 0.5 contrast_lower: V }"},
    {"TransformationParameter", "max_contrast",
     "distort_param { contrast_prob: 0.5 contrast_upper: V }"},
    {"TransformationParameter", "contrast_brightness_adjustment",
     "distort_param { contrast_prob: 0.5 brightness_prob: 0.5 }"},
    {"TransformationParameter", "aspect_min", "random_crop_param { min_aspect: V }"},
    {"TransformationParameter", "aspect_max", "random_crop_param { max_aspect: V }"},
    {"TransformationParameter", "scale_min", "random_crop_param { min_area: V }",
     "an area is the square of a scale of the sides"},
    {"TransformationParameter", "scale_max", "random_crop_param { max_area: V }",
     "an area is the square of a scale of the sides"},
    {"TransformationParameter", "erase_ratio", "erase_param { prob: V }"},
    {"ConvolutionParameter", "hole", "dilation: V"},
    {"ConvolutionParameter", "hole_h", "dilation: V", "the first is of the height"},
    {"ConvolutionParameter", "hole_w", "dilation: V", "the second is of the width"},
    {"ConvolutionParameter", "dilation_h", "dilation: V", "the first is of the height"},
    {"ConvolutionParameter", "dilation_w", "dilation: V", "the second is of the width"},
    {"ConvolutionParameter", "filter_stride", "dilation: V"},
    {"ConvolutionParameter", "filter_stride_h", "dilation: V", "the first is of the height"},
    {"ConvolutionParameter", "filter_stride_w", "dilation: V", "the second is of the width"},
    {"ConvolutionParameter", "CuDNNFwdAlgo", "conv_algos_override: \"-1,-1,-1\""},
    {"ConvolutionParameter", "CuDNNBwdDataAlgo", "conv_algos_override: \"-1,-1,-1\""},
    {"ConvolutionParameter", "CuDNNBwdFilterAlgo", "conv_algos_override: \"-1,-1,-1\""},
    {"BatchNormParameter", "epsilon", "eps: V"},
    {"BatchNormParameter", "momentum", "moving_average_fraction: V",
     "it is the share that the old statistics keep"},
    {"BatchNormParameter", "decay", "moving_average_fraction: V"},
    {"BNParameter", "epsilon", "eps: V"},
    {"BNParameter", "var_eps", "eps: V"},
    {"BNParameter", "decay", "momentum: V"},
    {"NormalizeParameter", "epsilon", "eps: V"},
    {"LossParameter", "class_weight", "class_weighting: V"},
    {"LossParameter", "class_weights", "class_weighting: V"},
    {"LossParameter", "ignore_index", "ignore_label: V"},
    {"LossParameter", "label_smooth_factor", "label_smoothing: V"},
    {"LossParameter", "label_smooth_eps", "label_smoothing: V"},
    {"MemoryDataParameter", "dim", "batch_size: 1 channels: 1 height: 1 width: 1",
     "each size has a field"},
    {"SolverParameter", "update_interval", "iter_size: V"},
    {"SolverParameter", "learning_rate", "base_lr: V"},
    {"SolverParameter", "lr", "base_lr: V"},
    {"SolverParameter", "milestones", "stepvalue: V"},
    {"SolverParameter", "steps", "stepvalue: V"},
    {"SolverParameter", "device", "device_id: V"},
    {"LayerParameter", "normalize_param", "norm_param { }"},
    {"LayerParameter", "smoothl1_param", "smooth_l1_loss_param { }"},
};

}  // namespace

std::span<const ForeignField> foreign_fields() { return kFields; }

std::string advice_for_foreign(const google::protobuf::Descriptor& message, const std::string& name,
                               const std::string& value) {
  const auto found = std::ranges::find_if(kFields, [&](const ForeignField& field) {
    return message.name() == field.message && name == field.name;
  });
  if (found == std::end(kFields)) return "";
  std::string write(found->write);
  for (size_t at = 0; (at = write.find(": V", at)) != std::string::npos;) {
    const std::string text = value.empty() ? "..." : value;
    write.replace(at + 2, 1, text);
    at += 2 + text.size();
  }
  return text("; write `", write, "` here", found->note.empty() ? "" : ": ", found->note);
}

}  // namespace crema
