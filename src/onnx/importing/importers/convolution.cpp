// Conv, ConvTranspose and DeformConv.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

bool all_equal(const std::vector<int64_t>& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}

// Sets one number, or one for each axis.
template <class Add>
void set_for_axes(const std::vector<int64_t>& values, int64_t otherwise, const Add& add) {
  if (all_equal(values)) {
    if (values[0] != otherwise) add(as_setting(values[0]));
    return;
  }
  for (const int64_t value : values) add(as_setting(value));
}

template <class Settings>
void set_windows(const Windows& windows, Settings& settings) {
  set_for_axes(windows.kernel, 0, [&](uint32_t size) { settings.add_kernel_size(size); });
  set_for_axes(windows.stride, 1, [&](uint32_t size) { settings.add_stride(size); });
  set_for_axes(windows.dilation, 1, [&](uint32_t size) { settings.add_dilation(size); });
  set_for_axes(windows.begin, 0, [&](uint32_t size) { settings.add_pad(size); });
}

const Array& filter_of(const Node& node, size_t input) {
  need_floats(node);
  const Array* const weights = constant_input(node, input);
  if (weights == nullptr) give_up("weights that are no constants");
  if (weights->shape().rank() < 3) give_up("weights of shape ", weights->shape().str());
  return *weights;
}

const Array* bias_of(const Node& node, size_t input) {
  const Array* const bias = constant_input(node, input);
  if (bias == nullptr && node.input(input) != nullptr) give_up("a bias that is no constant");
  return bias;
}

std::vector<int64_t> kernel_of(const Array& weights) {
  return {weights.shape().dims().begin() + 2, weights.shape().dims().end()};
}

bool is_negative(const std::vector<int64_t>& sizes) {
  return std::ranges::any_of(sizes, [](int64_t size) { return size < 0; });
}

void import_conv(const Node& node, LayerWriter& writer) {
  const Array& weights = filter_of(node, 1);
  const Array* const bias = bias_of(node, 2);
  Windows windows = windows_of(node, node.input(0)->shape(), kernel_of(weights));
  LayerEnd x(node.input(0));
  if (!windows.is_symmetric() || is_negative(windows.begin)) {
    x = LayerEnd(add_spatial_pad(node, writer, x, windows.begin, windows.end, 0));
    windows.begin.assign(windows.begin.size(), 0);
  }
  LayerParameter& layer = writer.add(node, "Convolution", {x}, {node.output()});
  ConvolutionParameter& settings = *layer.mutable_convolution_param();
  settings.set_num_output(as_setting(weights.shape()[0]));
  if (bias == nullptr) settings.set_bias_term(false);
  set_windows(windows, settings);
  const int64_t group = node.call().get_int("group", 1);
  if (group != 1) settings.set_group(as_setting(group));
  fill_weights(*settings.mutable_weight_filler());
  writer.add_weights(layer, *node.input(1));
  if (bias == nullptr) return;
  fill_constant(*settings.mutable_bias_filler(), 0);
  writer.add_weights(layer, *node.input(2));
}

// What is cut off both ends of each axis of the plain result; negative: what is added.
void cut_of_transposed(const Node& node, const Shape& x, Windows& windows) {
  const Shape& out = node.output()->shape();
  for (size_t i = 0; i < windows.kernel.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    const int64_t full = windows.stride[i] * (x[axis] - 1) + reach;
    windows.end[i] = full - out[axis] - windows.begin[i];
  }
}

void import_conv_transpose(const Node& node, LayerWriter& writer) {
  const Array& weights = filter_of(node, 1);
  const Array* const bias = bias_of(node, 2);
  const Call call = node.call();
  const bool has_shape = call.has_attribute("output_shape") ||
                         call.get_string("auto_pad", "NOTSET").starts_with("SAME");
  if (has_shape) give_up("output_shape or auto_pad");
  const Shape& x = node.input(0)->shape();
  Windows windows = windows_of(node, x, kernel_of(weights));
  cut_of_transposed(node, x, windows);
  const int64_t group = call.get_int("group", 1);
  const int64_t outputs = node.output()->shape()[1];
  // What is added at an end has the bias, as elements have that no input reaches.
  const bool is_plain = windows.is_symmetric() && !is_negative(windows.begin);
  const bool bias_behind = bias != nullptr && !is_plain && is_negative(windows.end);
  const std::vector<int64_t> begin = windows.begin, end = windows.end;
  if (!is_plain) windows.begin.assign(begin.size(), 0);
  const std::string whole = is_plain ? std::string() : writer.inner_blob(node, "whole");
  LayerParameter& layer = writer.add(node, "Deconvolution", {node.input(0)},
                                     {is_plain ? LayerEnd(node.output()) : LayerEnd(whole)});
  ConvolutionParameter& settings = *layer.mutable_convolution_param();
  settings.set_num_output(as_setting(outputs));
  const bool has_bias = bias != nullptr && !bias_behind;
  if (!has_bias) settings.set_bias_term(false);
  set_windows(windows, settings);
  if (group != 1) settings.set_group(as_setting(group));
  fill_weights(*settings.mutable_weight_filler());
  writer.add_weights(layer, *node.input(1));
  if (has_bias) {
    fill_constant(*settings.mutable_bias_filler(), 0);
    writer.add_weights(layer, *node.input(2));
  }
  if (is_plain) return;
  const std::string cut = bias_behind ? writer.inner_blob(node, "cut") : std::string();
  PadParameter& pad = *writer
                           .add(node, "Pad", {whole},
                                {bias_behind ? LayerEnd(cut) : LayerEnd(node.output())}, "cut")
                           .mutable_pad_param();
  for (const int64_t size : begin) pad.add_begin(-size);
  for (const int64_t size : end) pad.add_end(-size);
  if (!bias_behind) return;
  LayerParameter& added = writer.add(node, "Bias", {cut}, {node.output()}, "bias");
  added.mutable_bias_param()->set_axis(1);
  writer.add_weights(added, *node.input(2));
}

void import_deform_conv(const Node& node, LayerWriter& writer) {
  const Array& weights = filter_of(node, 1);
  const Array* const bias = bias_of(node, 3);
  const Windows windows = windows_of(node, node.input(0)->shape(), kernel_of(weights));
  if (windows.kernel.size() != 2 || !windows.is_symmetric() || is_negative(windows.begin))
    give_up("windows of another form than images have");
  std::vector<LayerEnd> bottoms = {node.input(0), node.input(2)};
  if (node.input(4) != nullptr) bottoms.emplace_back(node.input(4));
  const Call call = node.call();
  LayerParameter& layer = writer.add(node, "DeformableConvolution", bottoms, {node.output()});
  DeformableConvolutionParameter& settings = *layer.mutable_deformable_convolution_param();
  settings.set_num_output(as_setting(weights.shape()[0]));
  if (bias == nullptr) settings.set_bias_term(false);
  set_windows(windows, settings);
  settings.set_group(as_setting(call.get_int("group", 1)));
  settings.set_deformable_group(as_setting(call.get_int("offset_group", 1)));
  fill_weights(*settings.mutable_weight_filler());
  writer.add_weights(layer, *node.input(1));
  if (bias != nullptr) writer.add_weights(layer, *node.input(3));
}

}  // namespace

void add_convolution_importers(ImporterTable& table) {
  table.add("Conv", import_conv);
  table.add("ConvTranspose", import_conv_transpose);
  table.add("DeformConv", import_deform_conv);
}

}  // namespace crema::onnx
