#include "onnx/importing/importers/support.hpp"

#include <algorithm>
#include <optional>

namespace crema::onnx {

namespace {

constexpr int64_t kMaxSetting = int64_t{1} << 24;

// The sizes of a Reshape layer; none if they cannot be said. In front, axes that have the size of
// an open batch, and may be it, stay as they are.
std::vector<int64_t> written_dims(const Shape& in, const Shape& out,
                                  std::optional<int64_t> open_batch) {
  std::vector<int64_t> dims = out.dims();
  if (dims.empty()) return dims;
  if (in.rank() > 0 && in[0] == out[0]) {
    dims[0] = 0;
  } else if (out.count(1) > 0) {
    dims[0] = -1;
  }
  const int common = std::min(in.rank(), out.rank());
  for (int i = 1; open_batch && i < common && in[i - 1] == out[i - 1] && in[i] == out[i]; ++i) {
    if (in[i] == *open_batch) dims[static_cast<size_t>(i)] = 0;
  }
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != 0 || out[static_cast<int>(i)] != 0) continue;
    if (static_cast<int>(i) >= in.rank() || in[static_cast<int>(i)] != 0)
      give_up("an empty shape ", out.str(), " of ", in.str());
  }
  return dims;
}

}  // namespace

void need_floats(const Node& node) {
  if (node.input(0) == nullptr || node.output() == nullptr || !is_float(node.input(0)->type()) ||
      !is_float(node.output()->type()))
    give_up("layers compute with floats");
}

const Array* constant_input(const Node& node, size_t i) {
  const Value* const value = node.input(i);
  return value != nullptr && value->is_constant() ? &value->values() : nullptr;
}

double number_input(const Node& node, size_t i, double otherwise) {
  if (node.input(i) == nullptr) return otherwise;
  const Array* const array = constant_input(node, i);
  if (array == nullptr || array->count() != 1) give_up("input ", i, " is no constant number");
  return array->at(0);
}

void need_one_output(const Node& node, const LayerWriter& writer) {
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != nullptr && writer.graph().is_wanted(*node.outputs[i]))
      give_up("no layer gives output ", i);
  }
}

uint32_t as_setting(int64_t value) {
  if (value < 0 || value > kMaxSetting) give_up("a size of ", value);
  return static_cast<uint32_t>(value);
}

void fill_weights(FillerParameter& filler) { filler.set_type("msra"); }

void fill_constant(FillerParameter& filler, float value) {
  filler.set_type("constant");
  filler.set_value(value);
}

LayerParameter& add_reshape(const Node& node, LayerWriter& writer, const LayerEnd& from,
                            const Shape& in, const LayerEnd& to, const Shape& out,
                            std::string_view step) {
  const bool is_flat = out.rank() == 2 && in.rank() > 2 && in[0] == out[0];
  if (is_flat) {
    LayerParameter& layer = writer.add(node, "Flatten", {from}, {to}, step);
    layer.mutable_flatten_param()->set_axis(1);
    return layer;
  }
  const std::vector<int64_t> dims = written_dims(in, out, writer.graph().open_batch());
  LayerParameter& layer = writer.add(node, "Reshape", {from}, {to}, step);
  BlobShape& shape = *layer.mutable_reshape_param()->mutable_shape();
  for (const int64_t dim : dims) shape.add_dim(dim);
  return layer;
}

Windows windows_of(const Node& node, const Shape& x, std::vector<int64_t> kernel) {
  const Call call = node.call();
  const size_t axes = kernel.size();
  if (x.rank() != static_cast<int>(axes) + 2) give_up("a window of ", axes, " axes over ", x.str());
  Windows result{.kernel = std::move(kernel),
                 .stride = call.get_ints("strides", std::vector<int64_t>(axes, 1)),
                 .dilation = call.get_ints("dilations", std::vector<int64_t>(axes, 1)),
                 .begin = std::vector<int64_t>(axes, 0),
                 .end = std::vector<int64_t>(axes, 0)};
  if (result.stride.size() != axes || result.dilation.size() != axes)
    give_up("strides or dilations that are not one for each of ", axes, " axes");
  for (size_t i = 0; i < axes; ++i) {
    if (result.stride[i] < 1 || result.dilation[i] < 1 || result.kernel[i] < 1)
      give_up("a kernel, stride or dilation below 1");
    as_setting(result.kernel[i]);
    as_setting(result.stride[i]);
    as_setting(result.dilation[i]);
  }
  const std::string mode = call.get_string("auto_pad", "NOTSET");
  if (mode == "VALID") return result;
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (size_t i = 0; i < axes; ++i) {
      const int64_t size = x[static_cast<int>(i) + 2];
      const int64_t out = (size + result.stride[i] - 1) / result.stride[i];
      const int64_t reach = result.dilation[i] * (result.kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>((out - 1) * result.stride[i] + reach - size, 0);
      const int64_t less = total / 2;
      result.begin[i] = mode == "SAME_UPPER" ? less : total - less;
      result.end[i] = total - result.begin[i];
    }
    return result;
  }
  const std::vector<int64_t> pads = call.get_ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (pads.size() != 2 * axes) give_up("pads that are not two for each of ", axes, " axes");
  for (size_t i = 0; i < axes; ++i) {
    result.begin[i] = pads[i];
    result.end[i] = pads[axes + i];
    if (std::abs(pads[i]) > kMaxSetting || std::abs(pads[axes + i]) > kMaxSetting)
      give_up("pads of ", pads[i], " and ", pads[axes + i]);
  }
  return result;
}

std::string add_spatial_pad(const Node& node, LayerWriter& writer, const LayerEnd& x,
                            const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                            double value, std::string_view step) {
  const std::string padded = writer.inner_blob(node, step);
  PadParameter& pad = *writer.add(node, "Pad", {x}, {padded}, step).mutable_pad_param();
  for (const int64_t size : begin) pad.add_begin(size);
  for (const int64_t size : end) pad.add_end(size);
  if (value != 0) pad.set_value(static_cast<float>(value));
  return padded;
}

}  // namespace crema::onnx
