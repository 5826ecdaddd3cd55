// Functions of each element.
#include <cmath>
#include <limits>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

LayerParameter& pointwise(const Node& node, LayerWriter& writer, std::string_view type) {
  need_floats(node);
  return writer.add(node, type, {node.input(0)}, {node.output()});
}

// Operators whose layer has no settings.
void import_plain_function(const Node& node, LayerWriter& writer) {
  static const std::map<std::string, std::string, std::less<>> kTypes = {
      {"Abs", "AbsVal"},      {"Exp", "Exp"},       {"HardSwish", "HardSwish"},
      {"Log", "Log"},         {"Mish", "Mish"},     {"Relu", "ReLU"},
      {"Sigmoid", "Sigmoid"}, {"Softplus", "BNLL"}, {"Tanh", "TanH"}};
  pointwise(node, writer, kTypes.find(node.op())->second);
}

void import_power_of(const Node& node, LayerWriter& writer) {
  PowerParameter& power = *pointwise(node, writer, "Power").mutable_power_param();
  if (node.op() == "Neg") power.set_scale(-1);
  if (node.op() == "Sqrt") power.set_power(0.5F);
  if (node.op() == "Reciprocal") power.set_power(-1);
}

void import_leaky_relu(const Node& node, LayerWriter& writer) {
  const double slope = node.call().get_float("alpha", 0.01);
  pointwise(node, writer, "ReLU")
      .mutable_relu_param()
      ->set_negative_slope(static_cast<float>(slope));
}

void import_elu(const Node& node, LayerWriter& writer) {
  const double alpha = node.call().get_float("alpha", 1);
  pointwise(node, writer, "ELU").mutable_elu_param()->set_alpha(static_cast<float>(alpha));
}

void import_selu(const Node& node, LayerWriter& writer) {
  constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875;
  const Call call = node.call();
  ELUParameter& settings = *pointwise(node, writer, "ELU").mutable_elu_param();
  settings.set_alpha(static_cast<float>(call.get_float("alpha", kAlpha)));
  settings.set_lambda(static_cast<float>(call.get_float("gamma", kGamma)));
}

// alpha * ELU(x / alpha) where x < 0, and x elsewhere.
void import_celu(const Node& node, LayerWriter& writer) {
  const auto alpha = static_cast<float>(node.call().get_float("alpha", 1));
  if (alpha == 1) {
    pointwise(node, writer, "ELU");
    return;
  }
  need_floats(node);
  if (!(alpha > 0)) give_up("alpha ", alpha);
  const std::string scaled = writer.inner_blob(node, "scaled");
  const std::string bent = writer.inner_blob(node, "bent");
  writer.add(node, "Power", {node.input(0)}, {scaled}, "scaled")
      .mutable_power_param()
      ->set_scale(1 / alpha);
  writer.add(node, "ELU", {scaled}, {bent}, "bent");
  writer.add(node, "Power", {bent}, {node.output()}).mutable_power_param()->set_scale(alpha);
}

void import_hard_sigmoid(const Node& node, LayerWriter& writer) {
  const Call call = node.call();
  HardSigmoidParameter& settings =
      *pointwise(node, writer, "HardSigmoid").mutable_hard_sigmoid_param();
  settings.set_alpha(static_cast<float>(call.get_float("alpha", 0.2)));
  settings.set_beta(static_cast<float>(call.get_float("beta", 0.5)));
}

void import_gelu(const Node& node, LayerWriter& writer) {
  const std::string approximation = node.call().get_string("approximate", "none");
  LayerParameter& layer = pointwise(node, writer, "GELU");
  if (approximation == "tanh") layer.mutable_gelu_param()->set_approximate(GELUParameter::TANH);
}

void import_swish(const Node& node, LayerWriter& writer) {
  const double beta = node.call().get_float("alpha", 1);
  pointwise(node, writer, "Swish").mutable_swish_param()->set_beta(static_cast<float>(beta));
}

void import_clip(const Node& node, LayerWriter& writer) {
  constexpr double kGreatest = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Call call = node.call();
  double low = call.get_float("min", -kInfinity), high = call.get_float("max", kInfinity);
  if (node.opset >= 11) {
    low = number_input(node, 1, -kInfinity);
    high = number_input(node, 2, kInfinity);
  }
  if (std::isnan(low) || std::isnan(high) || low > high) give_up("bounds ", low, " and ", high);
  if (low == 0 && high >= kGreatest) {
    pointwise(node, writer, "ReLU");
    return;
  }
  // A bound that is not given stops nothing, infinities neither.
  const auto bound = [](double value) {
    return std::abs(value) > kGreatest ? static_cast<float>(std::copysign(kInfinity, value))
                                       : static_cast<float>(value);
  };
  ClipParameter& settings = *pointwise(node, writer, "Clip").mutable_clip_param();
  settings.set_min(bound(low));
  settings.set_max(bound(high));
}

void import_prelu(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Array* const slope = constant_input(node, 1);
  if (slope == nullptr) give_up("slopes that are no constants");
  const Shape& x = node.input(0)->shape();
  const bool is_shared = slope->count() == 1;
  // Slopes broadcast from the last axes: (C, 1, 1) is one for each channel.
  const int channels = x.rank() < 2 ? -1 : slope->shape().rank() - (x.rank() - 1);
  const bool by_channel = channels >= 0 && channels < slope->shape().rank() &&
                          slope->shape()[channels] == slope->count() && slope->count() == x[1];
  if (!is_shared && !by_channel)
    give_up("slopes of shape ", slope->shape().str(), " for ", x.str());
  LayerParameter& layer = writer.add(node, "PReLU", {node.input(0)}, {node.output()});
  if (is_shared) layer.mutable_prelu_param()->set_channel_shared(true);
  writer.add_weights(layer, *node.input(1), is_shared ? Shape{} : Shape{slope->count()});
  fill_constant(*layer.mutable_prelu_param()->mutable_filler(), 0.25F);
}

void import_dropout(const Node& node, LayerWriter& writer) {
  need_floats(node);
  need_one_output(node, writer);
  double ratio = node.call().get_float("ratio", 0.5);
  if (node.opset >= 12) {
    ratio = number_input(node, 1, 0.5);
    if (number_input(node, 2, 0) != 0) give_up("training_mode");
  }
  if (!(ratio >= 0 && ratio < 1)) give_up("ratio ", ratio);
  LayerParameter& layer = writer.add(node, "Dropout", {node.input(0)}, {node.output()});
  layer.mutable_dropout_param()->set_dropout_ratio(static_cast<float>(ratio));
}

// The axis of opset 13, or that of older ones where it says the same: they flatten the tensor to
// two axes.
int softmax_axis(const Node& node, const Shape& x) {
  const Call call = node.call();
  const int axis = call.canonical(call.get_int("axis", node.opset < 13 ? 1 : -1), x.rank());
  return axis;
}

void add_softmax(const Node& node, LayerWriter& writer, const LayerEnd& from, const LayerEnd& to,
                 int axis, std::string_view step = {}) {
  if (node.op() == "Softmax") {
    LayerParameter& layer = writer.add(node, "Softmax", {from}, {to}, step);
    if (axis != 1) layer.mutable_softmax_param()->set_axis(axis);
    return;
  }
  const std::string sum = writer.inner_blob(node, "log_sum");
  ReduceParameter& reduce =
      *writer.add(node, "Reduce", {from}, {sum}, "log_sum").mutable_reduce_param();
  reduce.set_operation(ReduceParameter::LOG_SUM_EXP);
  reduce.add_axis(axis);
  writer.add(node, "Arithmetic", {from, sum}, {to}, step)
      .mutable_arithmetic_param()
      ->set_operation(ArithmeticParameter::SUB);
}

void import_softmax(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0 || x.count() == 0) give_up("no axis to sum along");
  const int axis = softmax_axis(node, x);
  if (node.opset >= 13 || x.count(axis) == x[axis]) {
    add_softmax(node, writer, node.input(0), node.output(), axis);
    return;
  }
  const Shape flat{x.count(0, axis), x.count(axis)};
  const std::string rows = writer.inner_blob(node, "rows");
  const std::string shares = writer.inner_blob(node, "of_rows");
  add_reshape(node, writer, node.input(0), x, rows, flat, "rows");
  add_softmax(node, writer, rows, shares, 1, "of_rows");
  add_reshape(node, writer, shares, flat, node.output(), x);
}

}  // namespace

void add_activation_importers(ImporterTable& table) {
  for (const char* op :
       {"Abs", "Exp", "HardSwish", "Log", "Mish", "Relu", "Sigmoid", "Softplus", "Tanh"})
    table.add(op, import_plain_function);
  for (const char* op : {"Neg", "Sqrt", "Reciprocal"}) table.add(op, import_power_of);
  table.add("LeakyRelu", import_leaky_relu);
  table.add("Elu", import_elu);
  table.add("Selu", import_selu);
  table.add("Celu", import_celu);
  table.add("HardSigmoid", import_hard_sigmoid);
  table.add("Gelu", import_gelu);
  table.add("Swish", import_swish);
  table.add("Clip", import_clip);
  table.add("PRelu", import_prelu);
  table.add("Dropout", import_dropout);
  table.add("Softmax", import_softmax);
  table.add("LogSoftmax", import_softmax);
}

}  // namespace crema::onnx
