// Operators that make one number of many, or order them.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

struct ReduceForm {
  ReduceParameter::Operation operation;
  int64_t axes_input_since;  // the opset from which on the axes are an input
};

const std::map<std::string, ReduceForm, std::less<>>& reduce_forms() {
  static const std::map<std::string, ReduceForm, std::less<>> kForms = {
      {"ReduceSum", {ReduceParameter::SUM, 13}},
      {"ReduceMean", {ReduceParameter::MEAN, 18}},
      {"ReduceMax", {ReduceParameter::MAX, 18}},
      {"ReduceMin", {ReduceParameter::MIN, 18}},
      {"ReduceProd", {ReduceParameter::PROD, 18}},
      {"ReduceL1", {ReduceParameter::L1, 18}},
      {"ReduceL2", {ReduceParameter::L2, 18}},
      {"ReduceSumSquare", {ReduceParameter::SUM_SQUARE, 18}},
      {"ReduceLogSum", {ReduceParameter::LOG_SUM, 18}},
      {"ReduceLogSumExp", {ReduceParameter::LOG_SUM_EXP, 18}}};
  return kForms;
}

bool is_all_positions(const Shape& x, const std::vector<int>& axes) {
  if (x.rank() < 3 || x.rank() > 5 || axes.size() != static_cast<size_t>(x.rank() - 2))
    return false;
  return std::ranges::find_if(axes, [](int axis) { return axis < 2; }) == axes.end();
}

void import_reduce(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0 || x.count() == 0) give_up("an empty tensor or a scalar");
  const ReduceForm& form = reduce_forms().find(node.op())->second;
  const auto given = call.ints_of("axes", 1, form.axes_input_since);
  if ((!given || given->empty()) && call.get_int("noop_with_empty_axes", 0) != 0)
    give_up("no axes");
  std::vector<int> axes;
  if (given) axes = call.canonical(*given, x.rank());
  for (int axis = 0; axis < x.rank() && (!given || given->empty()); ++axis) axes.push_back(axis);
  const bool keeps = call.get_int("keepdims", 1) != 0;
  const bool is_pooling =
      (form.operation == ReduceParameter::MEAN || form.operation == ReduceParameter::MAX) &&
      is_all_positions(x, axes);
  if (is_pooling) {
    const std::string pooled = keeps ? std::string() : writer.inner_blob(node, "pooled");
    PoolingParameter& settings = *writer
                                      .add(node, "Pooling", {node.input(0)},
                                           {keeps ? LayerEnd(node.output()) : LayerEnd(pooled)})
                                      .mutable_pooling_param();
    settings.set_pool(form.operation == ReduceParameter::MAX ? PoolingParameter::MAX
                                                             : PoolingParameter::AVE);
    settings.set_global_pooling(true);
    if (keeps) return;
    Shape ones = x;
    for (const int axis : axes) ones.set(axis, 1);
    add_reshape(node, writer, pooled, ones, node.output(), node.output()->shape(), "flat");
    return;
  }
  ReduceParameter& settings =
      *writer.add(node, "Reduce", {node.input(0)}, {node.output()}).mutable_reduce_param();
  settings.set_operation(form.operation);
  if (given && !given->empty()) {
    for (const int axis : axes) settings.add_axis(axis);
  }
  if (!keeps) settings.set_keep_dims(false);
}

void import_arg(const Node& node, LayerWriter& writer) {
  if (!is_float(node.input(0)->type())) give_up("layers compare floats");
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.rank() == 0 || x.count() == 0) give_up("an empty tensor or a scalar");
  const int axis = call.canonical(call.get_int("axis", 0), x.rank());
  const bool is_max = node.op() == "ArgMax";
  const bool is_last = call.get_int("select_last_index", 0) != 0;
  const bool keeps = call.get_int("keepdims", 1) != 0;
  if (is_last && !is_max) give_up("the last of the least values");
  const std::string index = keeps ? std::string() : writer.inner_blob(node, "index");
  const LayerEnd top = keeps ? LayerEnd(node.output()) : LayerEnd(index);
  if (is_last) {
    writer.add(node, "ArgMax", {node.input(0)}, {top}).mutable_argmax_param()->set_axis(axis);
  } else {
    const std::string greatest = writer.inner_blob(node, "value");
    TopKParameter& settings =
        *writer.add(node, "TopK", {node.input(0)}, {greatest, top}).mutable_topk_param();
    settings.set_axis(axis);
    if (!is_max) settings.set_largest(false);
  }
  if (keeps) return;
  Shape one = x;
  one.set(axis, 1);
  add_reshape(node, writer, index, one, node.output(), node.output()->shape(), "flat");
}

void import_top_k(const Node& node, LayerWriter& writer) {
  if (!is_float(node.input(0)->type())) give_up("layers compare floats");
  const Call call = node.call();
  if (call.opset() >= 10 && !call.is_constant(1)) give_up("a number K that follows from values");
  const Shape& x = node.input(0)->shape();
  const int axis = call.canonical(call.get_int("axis", -1), x.rank());
  const Value* const known = node.output(0) != nullptr ? node.output(0) : node.output(1);
  if (known == nullptr || known->shape()[axis] < 1 || x[axis] < 1) give_up("no element");
  std::vector<LayerEnd> tops = {node.output(0)};
  if (node.output(1) != nullptr && writer.graph().is_wanted(*node.output(1)))
    tops.emplace_back(node.output(1));
  TopKParameter& settings = *writer.add(node, "TopK", {node.input(0)}, tops).mutable_topk_param();
  settings.set_k(as_setting(known->shape()[axis]));
  settings.set_axis(axis);
  if (call.get_int("largest", 1) == 0) settings.set_largest(false);
  if (call.get_int("sorted", 1) == 0) settings.set_sorted(false);
}

void import_cumulative_sum(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const int rank = node.input(0)->shape().rank();
  const double axis = number_input(node, 1, 0);
  if (rank == 0 || axis < -rank || axis >= rank) give_up("axis ", axis);
  CumSumParameter& settings =
      *writer.add(node, "CumSum", {node.input(0)}, {node.output()}).mutable_cumsum_param();
  settings.set_axis(static_cast<int32_t>(axis));
  if (call.get_int("exclusive", 0) != 0) settings.set_exclusive(true);
  if (call.get_int("reverse", 0) != 0) settings.set_reverse(true);
}

}  // namespace

void add_reduction_importers(ImporterTable& table) {
  for (const auto& [op, form] : reduce_forms()) table.add(op, import_reduce);
  table.add("ArgMax", import_arg);
  table.add("ArgMin", import_arg);
  table.add("TopK", import_top_k);
  table.add("CumSum", import_cumulative_sum);
}

}  // namespace crema::onnx
