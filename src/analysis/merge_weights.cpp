#include "analysis/merge_weights.hpp"

#include <algorithm>

#include "crema/error.hpp"
#include "model/blob_message.hpp"

namespace crema {
namespace {

bool is_convolution(const std::string& type) {
  return type == "Convolution" || type == "DepthwiseConvolution" ||
         type == "ConvolutionDepthwise" || type == "Convolution3D";
}

bool shifts(const ChannelAffine& affine) {
  return std::ranges::any_of(affine.shift, [](double shift) { return shift != 0; });
}

}  // namespace

bool MergeableWeights::are_in(const LayerParameter& param) {
  return is_convolution(param.type()) || param.type() == "Deconvolution" ||
         param.type() == "InnerProduct";
}

MergeableWeights::MergeableWeights(LayerParameter& param, const Shape& bottom) : param_(&param) {
  const int axis =
      is_inner_product() ? param.inner_product_param().axis() : param.convolution_param().axis();
  if (bottom.canonical_axis(axis) != 1)
    throw Error("layer '", param.name(), "' has axis ", axis, ", not the channels'");
  weights_ = blob_shape(param.blobs(0));
  inputs_ = bottom[1];
  if (is_inner_product()) {
    outputs_ = weights_[is_transposed() ? 1 : 0];
    per_channel_ = bottom.count(2);
  } else {
    outputs_ =
        is_3d() ? param.convolution3d_param().num_output() : param.convolution_param().num_output();
  }
}

bool MergeableWeights::is_inner_product() const { return param_->type() == "InnerProduct"; }

bool MergeableWeights::is_transposed() const {
  return is_inner_product() ? param_->inner_product_param().transpose()
                            : param_->type() == "Deconvolution";
}

bool MergeableWeights::has_padding() const {
  if (is_3d()) {
    const Convolution3DParameter& settings = param_->convolution3d_param();
    return settings.pad() != 0 || settings.temporal_pad() != 0;
  }
  const ConvolutionParameter& settings = param_->convolution_param();
  return settings.pad_h() != 0 || settings.pad_w() != 0 ||
         std::ranges::any_of(settings.pad(), [](uint32_t pad) { return pad != 0; });
}

void MergeableWeights::for_each(const std::function<void(double&, size_t, size_t)>& body) {
  // (first, second, taps): outputs and inputs of a group, or the other way round.
  const int64_t first = weights_[0], second = weights_[1], taps = weights_.count(2);
  const int64_t all_of_second = is_inner_product() ? second : is_transposed() ? outputs_ : inputs_;
  const int64_t groups = std::max<int64_t>(all_of_second / second, 1);
  double* weight = param_->mutable_blobs(0)->mutable_double_data()->mutable_data();
  for (int64_t a = 0; a < first; ++a) {
    const int64_t group = a / (first / groups);
    for (int64_t b = 0; b < second; ++b) {
      const int64_t of_second = group * second + b;
      const int64_t out = is_transposed() ? of_second : a;
      const int64_t in = (is_transposed() ? a : of_second) / per_channel_;
      for (int64_t tap = 0; tap < taps; ++tap, ++weight) {
        body(*weight, static_cast<size_t>(out), static_cast<size_t>(in));
      }
    }
  }
}

double* MergeableWeights::bias() {
  if (param_->blobs_size() == 1) {
    BlobProto* made = param_->add_blobs();
    made->mutable_shape()->add_dim(outputs_);
    made->mutable_double_data()->Resize(static_cast<int>(outputs_), 0);
    if (is_inner_product()) {
      param_->mutable_inner_product_param()->clear_bias_term();
    } else if (is_3d()) {
      param_->mutable_convolution3d_param()->clear_bias_term();
    } else {
      param_->mutable_convolution_param()->clear_bias_term();
    }
  }
  return param_->mutable_blobs(1)->mutable_double_data()->mutable_data();
}

void MergeableWeights::scale_outputs(const ChannelAffine& affine) {
  const bool relu = is_inner_product() ? param_->inner_product_param().relu()
                                       : param_->convolution_param().relu();
  if (relu) throw Error("layer '", param_->name(), "' applies a ReLU before");
  if (static_cast<int64_t>(affine.scale.size()) != outputs_)
    throw Error("layer '", param_->name(), "' has ", outputs_, " channels, not ",
                affine.scale.size());
  for_each([&](double& weight, size_t out, size_t) { weight *= affine.scale[out]; });
  if (param_->blobs_size() == 1 && !shifts(affine)) return;
  double* values = bias();
  for (size_t out = 0; out < affine.scale.size(); ++out) {
    values[out] = affine.scale[out] * values[out] + affine.shift[out];
  }
}

void MergeableWeights::scale_inputs(const ChannelAffine& affine) {
  if (static_cast<int64_t>(affine.scale.size()) != inputs_)
    throw Error("layer '", param_->name(), "' reads ", inputs_, " channels, not ",
                affine.scale.size());
  if (shifts(affine)) {
    // A border of zeros would have to be one of shifts.
    if (!is_inner_product() && has_padding())
      throw Error("layer '", param_->name(), "' behind it pads with zeros, which are not shifted");
    if (param_->type() == "Deconvolution")
      throw Error("layer '", param_->name(),
                  "' behind it (Deconvolution) adds up fewer shifts at its borders");
    double* values = bias();
    for_each(
        [&](double& weight, size_t out, size_t in) { values[out] += weight * affine.shift[in]; });
  }
  for_each([&](double& weight, size_t, size_t in) { weight *= affine.scale[in]; });
}

}  // namespace crema
