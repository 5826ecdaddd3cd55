// Convolutions of all kinds. Weights keep their order: ONNX has that of Caffe.
#include <algorithm>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

struct Windows {
  std::vector<int64_t> kernel, stride, pad, dilation;

  Attributes attributes(int64_t group) const {
    std::vector<int64_t> pads = pad;
    pads.insert(pads.end(), pad.begin(), pad.end());
    return {{"kernel_shape", kernel},
            {"strides", stride},
            {"pads", pads},
            {"dilations", dilation},
            {"group", group}};
  }
};

/// Of ConvolutionParameter, and of messages with the same fields.
template <class Settings>
Windows windows_of(const Settings& s, size_t axes) {
  return {spatial_setting(s.kernel_size(), set_value(s.has_kernel_h(), s.kernel_h()),
                          set_value(s.has_kernel_w(), s.kernel_w()), axes, 1),
          spatial_setting(s.stride(), set_value(s.has_stride_h(), s.stride_h()),
                          set_value(s.has_stride_w(), s.stride_w()), axes, 1),
          spatial_setting(s.pad(), set_value(s.has_pad_h(), s.pad_h()),
                          set_value(s.has_pad_w(), s.pad_w()), axes, 0),
          spatial_setting(s.dilation(), std::nullopt, std::nullopt, axes, 1)};
}

/// Shape with all axes before `axis`, the channels', as one.
Shape with_one_batch(const Shape& shape, int axis) {
  std::vector<int64_t> dims(shape.dims().begin() + axis, shape.dims().end());
  dims.insert(dims.begin(), shape.count(0, axis));
  return Shape(std::move(dims));
}

/// Each bottom to its top by Conv or ConvTranspose.
void write_convolutions(const ExportedLayer& layer, GraphBuilder& graph, const char* op, int axis,
                        const Windows& windows, int64_t group, bool bias,
                        const std::optional<double>& relu) {
  Names parameters{graph.constant(layer.weight(0), "weight")};
  if (bias) {
    const Array values = layer.weight(1);
    parameters.push_back(graph.constant(values.reshaped(Shape{values.count()}), "bias"));
  }
  for (size_t i = 0; i < layer.bottoms(); ++i) {
    std::string x = layer.input(i);
    if (axis != 1) x = graph.reshape(x, with_one_batch(layer.bottom(i), axis));
    std::string y = graph.add(
        op,
        [&] {
          Names inputs{x};
          inputs.insert(inputs.end(), parameters.begin(), parameters.end());
          return inputs;
        }(),
        windows.attributes(group));
    if (axis != 1) y = graph.reshape(y, layer.top(i));
    finish(layer, graph, relu ? rectified(graph, y, *relu) : y, i);
  }
}

void export_convolution_as(const ExportedLayer& layer, GraphBuilder& graph, const char* op,
                           bool transposed) {
  const ConvolutionParameter& settings = layer.param().convolution_param();
  const int axis = layer.bottom().canonical_axis(settings.axis());
  const int spatial = layer.bottom().rank() - axis - 1;
  if (spatial < 1)
    throw Error("has no spatial axes behind its channels; an InnerProduct is the same there");
  const Shape& weights = layer.weight_shape(0);
  Windows windows = windows_of(settings, static_cast<size_t>(spatial));
  windows.kernel.assign(weights.dims().end() - spatial, weights.dims().end());
  const int64_t channels = layer.bottom()[axis];
  const int64_t group = transposed ? layer.top()[axis] / std::max<int64_t>(weights[1], 1)
                                   : channels / std::max<int64_t>(weights[1], 1);
  write_convolutions(
      layer, graph, op, axis, windows, group, settings.bias_term(),
      settings.relu() ? std::optional<double>(settings.negative_slope()) : std::nullopt);
}

void export_convolution(const ExportedLayer& layer, GraphBuilder& graph) {
  export_convolution_as(layer, graph, "Conv", false);
}

void export_deconvolution(const ExportedLayer& layer, GraphBuilder& graph) {
  export_convolution_as(layer, graph, "ConvTranspose", true);
}

void export_convolution3d(const ExportedLayer& layer, GraphBuilder& graph) {
  const Convolution3DParameter& s = layer.param().convolution3d_param();
  const auto axes = [](int64_t depth, int64_t others) {
    return std::vector<int64_t>{depth, others, others};
  };
  const Windows windows{axes(s.kernel_depth(), s.kernel_size()),
                        axes(s.temporal_stride(), s.stride()), axes(s.temporal_pad(), s.pad()),
                        axes(1, 1)};
  write_convolutions(layer, graph, "Conv", 1, windows, s.filter_group(), s.bias_term(),
                     std::nullopt);
}

/// (N, C, spatial...) to (N, C * taps, positions...): a convolution in groups of one channel, whose
/// outputs are the taps.
std::string unfolded(GraphBuilder& graph, const std::string& x, int64_t channels,
                     const Windows& windows) {
  int64_t taps = 1;
  for (const int64_t size : windows.kernel) taps *= size;
  std::vector<int64_t> dims{channels * taps, 1};
  dims.insert(dims.end(), windows.kernel.begin(), windows.kernel.end());
  std::vector<double> unit(static_cast<size_t>(channels * taps * taps), 0.0);
  for (int64_t i = 0; i < channels * taps; ++i) unit[static_cast<size_t>(i * taps + i % taps)] = 1;
  const std::string weights = graph.floats(Shape(std::move(dims)), unit, "taps");
  return graph.add("Conv", {x, weights}, windows.attributes(channels));
}

void export_im2col(const ExportedLayer& layer, GraphBuilder& graph) {
  const ConvolutionParameter& settings = layer.param().convolution_param();
  const Shape& shape = layer.bottom();
  const int axis = shape.canonical_axis(settings.axis());
  const Windows windows = windows_of(settings, static_cast<size_t>(shape.rank() - axis - 1));
  std::string x = layer.input();
  if (axis != 1) x = graph.reshape(x, with_one_batch(shape, axis));
  const std::string y = unfolded(graph, x, shape[axis], windows);
  finish(layer, graph, axis != 1 ? graph.reshape(y, layer.top()) : y);
}

/// A product of its own at each position: matrices (samples, taps) by (taps, outputs).
void export_locally_connected(const ExportedLayer& layer, GraphBuilder& graph) {
  const LocallyConnectedParameter& s = layer.param().local_param();
  const auto pair = [](int64_t both, const std::optional<int64_t>& height,
                       const std::optional<int64_t>& width) {
    return std::vector<int64_t>{height.value_or(both), width.value_or(both)};
  };
  const Windows windows{
      pair(s.kernel_size(), set_value(s.has_kernel_h(), s.kernel_h()),
           set_value(s.has_kernel_w(), s.kernel_w())),
      pair(s.stride(), set_value(s.has_stride_h(), s.stride_h()),
           set_value(s.has_stride_w(), s.stride_w())),
      pair(s.pad(), set_value(s.has_pad_h(), s.pad_h()), set_value(s.has_pad_w(), s.pad_w())),
      {1, 1}};
  const Shape &shape = layer.bottom(), &to = layer.top();
  const int64_t outputs = to[1], positions = to.count(2);
  const int64_t taps = shape[1] * windows.kernel[0] * windows.kernel[1];
  const std::string columns = unfolded(graph, layer.input(), shape[1], windows);
  const std::string rows =
      graph.transpose(graph.reshape(columns, Shape{shape[0], taps, positions}), {2, 0, 1});
  // (outputs, taps, positions) as (positions, taps, outputs)
  const std::vector<double> given = layer.weight_values(0);
  std::vector<double> weights(given.size());
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t p = 0; p < positions; ++p) {
        weights[static_cast<size_t>((p * taps + t) * outputs + o)] =
            given[static_cast<size_t>((o * taps + t) * positions + p)];
      }
    }
  }
  const std::string products =
      graph.add("MatMul", {rows, graph.floats(Shape{positions, taps, outputs}, weights, "weight")});
  std::string y = graph.transpose(products, {1, 2, 0});  // (N, outputs, positions)
  y = graph.reshape(y, to);
  if (s.bias_term()) {
    const Array bias = layer.weight(1).reshaped(Shape{outputs, to[2], to[3]});
    y = graph.add("Add", {y, graph.constant(bias, "bias")});
  }
  finish(layer, graph, y);
}

/// Without an operator: each tap is sampled, weighed by its mask, and the samples are convolved by
/// kernels of one pixel.
void export_deformable_by_samples(const ExportedLayer& layer, GraphBuilder& graph,
                                  const DeformableConvolutionParameter& s, const Windows& windows) {
  const Shape &shape = layer.bottom(), &to = layer.top();
  const int64_t groups = s.deformable_group(), taps = windows.kernel[0] * windows.kernel[1];
  const int64_t rows = to[2], columns = to[3], batch = shape[0];
  const int64_t open = graph.open_batch() ? -1 : batch * groups;
  // Offsets (N, groups, taps, 2, positions) become points (N * groups, taps * positions).
  const std::string offsets =
      graph.reshape(layer.input(1), std::vector<int64_t>{open, taps, 2, rows * columns});
  const Names halves = graph.split(offsets, 2, {1, 1});
  std::vector<double> y(static_cast<size_t>(taps * rows * columns)), x(y.size());
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t p = 0; p < rows * columns; ++p) {
      const auto i = static_cast<size_t>(t * rows * columns + p);
      y[i] = static_cast<double>(p / columns * windows.stride[0] - windows.pad[0] +
                                 t / windows.kernel[1] * windows.dilation[0]);
      x[i] = static_cast<double>(p % columns * windows.stride[1] - windows.pad[1] +
                                 t % windows.kernel[1] * windows.dilation[1]);
    }
  }
  const auto points = [&](const std::string& half, const std::vector<double>& grid,
                          std::string_view hint) {
    const std::string flat = graph.reshape(half, std::vector<int64_t>{open, taps * rows * columns});
    return graph.add("Add", {flat, graph.floats(Shape{1, taps * rows * columns}, grid, hint)});
  };
  const std::string maps = graph.reshape(
      layer.input(0), std::vector<int64_t>{open, shape[1] / groups, shape[2], shape[3]});
  const std::string at_y = points(halves[0], y, "rows"), at_x = points(halves[1], x, "columns");
  std::string samples =
      bilinear_sample(graph, maps, at_y, at_x, open, shape[1] / groups, shape[2], shape[3], false);
  if (layer.bottoms() > 2) {
    const std::string mask =
        graph.reshape(layer.input(2), std::vector<int64_t>{open, 1, taps * rows * columns});
    samples = graph.add("Mul", {samples, mask});
  }
  samples = graph.reshape(samples, Shape{batch, shape[1] * taps, rows, columns});
  const Array weights = layer.weight(0);
  const int64_t outputs = weights.shape()[0];
  Names inputs{
      samples,
      graph.constant(weights.reshaped(Shape{outputs, weights.count() / outputs, 1, 1}), "weight")};
  if (s.bias_term()) inputs.push_back(graph.constant(layer.weight(1), "bias"));
  graph.add("Conv", inputs, {{"group", int64_t{s.group()}}}, layer.output());
}

void export_deformable(const ExportedLayer& layer, GraphBuilder& graph) {
  const DeformableConvolutionParameter& s = layer.param().deformable_convolution_param();
  const Windows windows = windows_of(s, 2);
  if (graph.opset() < 19) return export_deformable_by_samples(layer, graph, s, windows);
  Names inputs{layer.input(0), graph.constant(layer.weight(0), "weight"), layer.input(1)};
  const bool has_mask = layer.bottoms() > 2;
  if (s.bias_term() || has_mask)
    inputs.push_back(s.bias_term() ? graph.constant(layer.weight(1), "bias") : "");
  if (has_mask) inputs.push_back(layer.input(2));
  Attributes attributes = windows.attributes(s.group());
  attributes.emplace_back("offset_group", int64_t{s.deformable_group()});
  graph.add("DeformConv", inputs, attributes, layer.output());
}

}  // namespace

void add_convolution_exporters(ExporterTable& table) {
  table.add("Convolution", export_convolution);
  table.add("Convolution3D", export_convolution3d);
  table.add("ConvolutionDepthwise", export_convolution);
  table.add("Deconvolution", export_deconvolution);
  table.add("DeformableConvolution", export_deformable);
  table.add("DepthwiseConvolution", export_convolution);
  table.add("Im2col", export_im2col);
  table.add("Local", export_locally_connected);
  table.add("LocallyConnected", export_locally_connected);
}

}  // namespace crema::onnx
