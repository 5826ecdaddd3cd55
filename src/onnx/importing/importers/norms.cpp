// Normalisations.
#include <algorithm>
#include <limits>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

// The constant in input i, of `count` numbers.
const Array& weights_of(const Node& node, size_t i, int64_t count) {
  const Array* const values = constant_input(node, i);
  if (values == nullptr) give_up("input ", i, " is no constant");
  if (values->count() != count)
    give_up("input ", i, " has ", values->count(), " numbers, not ", count);
  return *values;
}

bool has_only(const Array& values, double number) {
  for (int64_t i = 0; i < values.count(); ++i) {
    if (values.at(i) != number) return false;
  }
  return true;
}

void import_batch_norm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  need_one_output(node, writer);
  const Call call = node.call();
  if (call.get_int("training_mode", 0) != 0) give_up("training_mode");
  if (call.get_int("spatial", 1) != 1) give_up("statistics of each position");
  const Shape& x = node.input(0)->shape();
  if (x.rank() < 2) give_up("a tensor without channels");
  const Shape channels{x[1]};
  const Array &scale = weights_of(node, 1, x[1]), &bias = weights_of(node, 2, x[1]);
  const Array& mean = weights_of(node, 3, x[1]);
  weights_of(node, 4, x[1]);
  const Value &from = *node.input(0), &to = *node.output();
  const bool has_scale = !has_only(scale, 1) || !has_only(bias, 0);
  const bool overwrites = writer.can_overwrite(node, from);
  const std::string in_place = overwrites  ? writer.blob(from)
                               : has_scale ? writer.inner_blob(node, "normalized")
                                           : std::string();
  const LayerEnd end = to.is_output || in_place.empty() ? LayerEnd(to) : LayerEnd(to, in_place);
  LayerParameter& layer =
      writer.add(node, "BatchNorm", {from}, {has_scale ? LayerEnd(in_place) : end});
  BatchNormParameter& settings = *layer.mutable_batch_norm_param();
  settings.set_eps(static_cast<float>(call.get_float("epsilon", 1e-5)));
  if (call.has_attribute("momentum"))
    settings.set_moving_average_fraction(static_cast<float>(call.get_float("momentum", 0.9)));
  writer.add_weights(layer, *node.input(3), channels);
  writer.add_weights(layer, *node.input(4), channels);
  LayerWriter::add_weights(layer, Array::of_doubles(mean.type(), Shape{1}, std::vector<double>{1}));
  if (!has_scale) return;
  LayerParameter& behind = writer.add(node, "Scale", {in_place}, {end}, "scale");
  behind.mutable_scale_param()->set_bias_term(true);
  fill_constant(*behind.mutable_scale_param()->mutable_filler(), 1);
  fill_constant(*behind.mutable_scale_param()->mutable_bias_filler(), 0);
  writer.add_weights(behind, *node.input(1), channels);
  writer.add_weights(behind, *node.input(2), channels);
}

void import_instance_norm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Shape& x = node.input(0)->shape();
  if (x.rank() < 3) give_up("a tensor without positions");
  const Array &scale = weights_of(node, 1, x[1]), &bias = weights_of(node, 2, x[1]);
  LayerParameter& layer = writer.add(node, "InstanceNorm", {node.input(0)}, {node.output()});
  InstanceNormParameter& settings = *layer.mutable_instance_norm_param();
  settings.set_eps(static_cast<float>(node.call().get_float("epsilon", 1e-5)));
  const bool has_scale = !has_only(scale, 1) || !has_only(bias, 0);
  if (!has_scale) return;
  settings.set_scale_term(true);
  settings.set_bias_term(true);
  writer.add_weights(layer, *node.input(1), Shape{x[1]});
  writer.add_weights(layer, *node.input(2), Shape{x[1]});
}

// The axes from `axis` on.
Shape tail_of(const Shape& x, int axis) {
  return Shape(std::vector<int64_t>(x.dims().begin() + axis, x.dims().end()));
}

void import_layer_norm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  need_one_output(node, writer);
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0) give_up("a scalar");
  const int axis = call.canonical(call.get_int("axis", -1), x.rank());
  const Shape normalized = tail_of(x, axis);
  weights_of(node, 1, normalized.count());
  const Value* const bias = node.input(2);
  if (bias != nullptr) weights_of(node, 2, normalized.count());
  LayerParameter& layer = writer.add(node, "LayerNorm", {node.input(0)}, {node.output()});
  LayerNormParameter& settings = *layer.mutable_layer_norm_param();
  settings.set_axis(axis - x.rank());
  settings.set_eps(static_cast<float>(call.get_float("epsilon", 1e-5)));
  if (bias == nullptr) settings.set_bias_term(false);
  writer.add_weights(layer, *node.input(1), normalized);
  if (bias != nullptr) writer.add_weights(layer, *bias, normalized);
}

void import_rms_norm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0) give_up("a scalar");
  const int axis = call.canonical(call.get_int("axis", -1), x.rank());
  const Shape normalized = tail_of(x, axis);
  weights_of(node, 1, normalized.count());
  LayerParameter& layer = writer.add(node, "RMSNorm", {node.input(0)}, {node.output()});
  RMSNormParameter& settings = *layer.mutable_rms_norm_param();
  settings.set_axis(axis - x.rank());
  settings.set_eps(static_cast<float>(call.get_float("epsilon", 1e-5)));
  writer.add_weights(layer, *node.input(1), normalized);
}

// One number for each channel; of opsets 18 to 20 there is one for each group.
Array of_channels(const Node& node, size_t i, int64_t groups, int64_t channels) {
  if (node.opset >= 21) return weights_of(node, i, channels);
  const Array& values = weights_of(node, i, groups);
  std::vector<int64_t> sources;
  for (int64_t channel = 0; channel < channels; ++channel)
    sources.push_back(channel / (channels / groups));
  return values.taken(Shape{channels}, sources);
}

void import_group_norm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() < 2) give_up("a tensor without channels");
  const int64_t groups = call.need_int("num_groups");
  if (groups < 1 || x[1] % groups != 0) give_up(groups, " groups of ", x[1], " channels");
  const Array scale = of_channels(node, 1, groups, x[1]);
  const Array bias = of_channels(node, 2, groups, x[1]);
  LayerParameter& layer = writer.add(node, "GroupNorm", {node.input(0)}, {node.output()});
  GroupNormParameter& settings = *layer.mutable_group_norm_param();
  settings.set_group(as_setting(groups));
  settings.set_eps(static_cast<float>(call.get_float("epsilon", 1e-5)));
  LayerWriter::add_weights(layer, scale, Shape{x[1]});
  LayerWriter::add_weights(layer, bias, Shape{x[1]});
}

void import_lrn(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const int64_t size = call.need_int("size");
  if (size < 1 || size % 2 == 0) give_up("a neighbourhood of ", size, " channels");
  LRNParameter& settings =
      *writer.add(node, "LRN", {node.input(0)}, {node.output()}).mutable_lrn_param();
  settings.set_local_size(as_setting(size));
  settings.set_alpha(static_cast<float>(call.get_float("alpha", 1e-4)));
  settings.set_beta(static_cast<float>(call.get_float("beta", 0.75)));
  settings.set_k(static_cast<float>(call.get_float("bias", 1)));
}

void import_lp_norm(const Node& node, LayerWriter& writer) {
  constexpr float kLeastNorm = 1e-30F;  // 0 stays 0
  need_floats(node);
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0) give_up("a scalar");
  const int axis = call.canonical(call.get_int("axis", -1), x.rank());
  const bool is_l1 = call.get_int("p", 2) == 1;
  const std::string norm = writer.inner_blob(node, "norm"), safe = writer.inner_blob(node, "safe");
  ReduceParameter& reduce =
      *writer.add(node, "Reduce", {node.input(0)}, {norm}, "norm").mutable_reduce_param();
  reduce.set_operation(is_l1 ? ReduceParameter::L1 : ReduceParameter::L2);
  reduce.add_axis(axis);
  ClipParameter& clip = *writer.add(node, "Clip", {norm}, {safe}, "safe").mutable_clip_param();
  clip.set_min(kLeastNorm);
  clip.set_max(std::numeric_limits<float>::infinity());
  writer.add(node, "Arithmetic", {node.input(0), safe}, {node.output()})
      .mutable_arithmetic_param()
      ->set_operation(ArithmeticParameter::DIV);
}

}  // namespace

void add_norm_importers(ImporterTable& table) {
  table.add("BatchNormalization", import_batch_norm);
  table.add("InstanceNormalization", import_instance_norm);
  table.add("LayerNormalization", import_layer_norm);
  table.add("RMSNormalization", import_rms_norm);
  table.add("GroupNormalization", import_group_norm);
  table.add("LRN", import_lrn);
  table.add("LpNormalization", import_lp_norm);
}

}  // namespace crema::onnx
