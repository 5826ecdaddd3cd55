// Layers that normalize by statistics.
#include <algorithm>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// One number a channel, so that it broadcasts over (N, C, ...) of `rank` axes.
std::string of_channels(GraphBuilder& graph, const Array& values, int rank, std::string_view hint) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max(rank - 1, 1)), 1);
  dims[0] = values.count();
  return graph.constant(values.reshaped(Shape(std::move(dims))), hint);
}

/// The axes whose values are normalized together by statistics of channels.
std::vector<int64_t> axes_but_channels(int rank) {
  std::vector<int64_t> axes = counted(rank);
  if (rank > 1) axes.erase(axes.begin() + 1);
  return axes;
}

/// (x - mean) / sqrt(variance + eps) with the statistics of x over the axes.
std::string normalized(GraphBuilder& graph, const std::string& x, const std::vector<int64_t>& axes,
                       double eps) {
  const std::string mean = graph.reduce("ReduceMean", x, axes, true);
  const std::string centred = graph.add("Sub", {x, mean});
  const std::string square = graph.add("Mul", {centred, centred});
  const std::string variance = graph.reduce("ReduceMean", square, axes, true);
  const std::string deviation =
      graph.add("Sqrt", {graph.add("Add", {variance, graph.number(eps)})});
  return graph.add("Div", {centred, deviation});
}

struct Statistics {
  std::vector<double> mean, variance, scale, bias;
  double eps;
};

/// BatchNormalization, whose scale and bias are always there.
std::string with_statistics(const ExportedLayer& layer, GraphBuilder& graph,
                            const Statistics& own) {
  const Shape channels{static_cast<int64_t>(own.mean.size())};
  const int rank = layer.bottom().rank();
  std::string x = layer.input();
  if (rank == 1) {  // one channel
    graph.need_fixed_batch("its bottom is one channel of one axis");
    x = graph.reshape(x, std::vector<int64_t>{-1, 1});
  }
  std::string y = graph.add(
      "BatchNormalization",
      {x, graph.floats(channels, own.scale, "scale"), graph.floats(channels, own.bias, "bias"),
       graph.floats(channels, own.mean, "running_mean"),
       graph.floats(channels, own.variance, "running_var")},
      {{"epsilon", own.eps}});
  return rank == 1 ? graph.reshape(y, std::vector<int64_t>{-1}) : y;
}

void export_batch_norm(const ExportedLayer& layer, GraphBuilder& graph) {
  const BatchNormParameter& settings = layer.param().batch_norm_param();
  const size_t parameters = layer.weights();
  const int rank = layer.bottom().rank();
  const auto channels = static_cast<size_t>(layer.weight_shape(0).count());
  std::string y;
  if (settings.has_use_global_stats() && !settings.use_global_stats()) {
    y = normalized(graph, layer.input(), axes_but_channels(rank), settings.eps());
    if (parameters > 3)
      y = graph.add("Mul", {y, of_channels(graph, layer.weight(3), rank, "scale")});
    if (parameters > 4)
      y = graph.add("Add", {y, of_channels(graph, layer.weight(4), rank, "bias")});
  } else {
    Statistics own{layer.weight_values(0), layer.weight_values(1),
                   std::vector<double>(channels, 1.0), std::vector<double>(channels, 0.0),
                   settings.eps()};
    // Both are sums, of which the third parameter is the common factor; 0: nothing was summed up.
    const double factor = layer.weight_values(2)[0];
    for (auto* sums : {&own.mean, &own.variance}) {
      for (double& value : *sums) value = factor == 0 ? 0 : value / factor;
    }
    if (parameters > 3) own.scale = layer.weight_values(3);
    if (parameters > 4) own.bias = layer.weight_values(4);
    y = with_statistics(layer, graph, own);
  }
  finish(layer, graph, settings.relu() ? rectified(graph, y, 0) : y);
}

void export_bn(const ExportedLayer& layer, GraphBuilder& graph) {
  const BNParameter& settings = layer.param().bn_param();
  const int rank = layer.bottom().rank();
  if (layer.weights() == 4) {
    return finish(
        layer, graph,
        with_statistics(layer, graph,
                        {layer.weight_values(2), layer.weight_values(3), layer.weight_values(0),
                         layer.weight_values(1), static_cast<double>(settings.eps())}));
  }
  // The fork whose layer keeps no statistics.
  std::string x = layer.input();
  if (settings.bn_mode() == BNParameter::LEARN) {
    x = normalized(graph, x, axes_but_channels(rank), settings.has_eps() ? settings.eps() : 1e-9);
  }
  x = graph.add("Mul", {x, of_channels(graph, layer.weight(0), rank, "scale")});
  graph.add("Add", {x, of_channels(graph, layer.weight(1), rank, "bias")}, {}, layer.output());
}

/// The parameter after the `i`-th that is there, if `is_there`.
std::optional<Array> next_weight(const ExportedLayer& layer, bool is_there, size_t& i) {
  if (!is_there) return std::nullopt;
  return layer.weight(i++);
}

void export_layer_norm(const ExportedLayer& layer, GraphBuilder& graph) {
  const LayerNormParameter& settings = layer.param().layer_norm_param();
  const Shape& shape = layer.bottom();
  const int axis = shape.canonical_axis(settings.axis());
  const Shape inner({shape.dims().begin() + axis, shape.dims().end()});
  size_t i = 0;
  const std::optional<Array> scale = next_weight(layer, settings.scale_term(), i);
  const std::optional<Array> bias = next_weight(layer, settings.bias_term(), i);
  // The operator has a scale, which would hold the size of an open batch.
  const bool has_batch = axis == 0 && graph.open_batch();
  if (graph.opset() >= 17 && !has_batch) {
    Names inputs{layer.input()};
    const std::vector<double> ones(static_cast<size_t>(inner.count()), 1.0);
    inputs.push_back(scale ? graph.constant(scale->reshaped(inner), "scale")
                           : graph.floats(inner, ones, "scale"));
    if (bias) inputs.push_back(graph.constant(bias->reshaped(inner), "bias"));
    graph.add("LayerNormalization", inputs, {{"axis", axis}, {"epsilon", settings.eps()}},
              layer.output());
    return;
  }
  std::string y =
      normalized(graph, layer.input(), counted(shape.rank() - axis, axis), settings.eps());
  if (scale) y = graph.add("Mul", {y, graph.constant(scale->reshaped(inner), "scale")});
  if (bias) y = graph.add("Add", {y, graph.constant(bias->reshaped(inner), "bias")});
  finish(layer, graph, y);
}

void export_rms_norm(const ExportedLayer& layer, GraphBuilder& graph) {
  const RMSNormParameter& settings = layer.param().rms_norm_param();
  const Shape& shape = layer.bottom();
  const int axis = shape.canonical_axis(settings.axis());
  const Shape inner({shape.dims().begin() + axis, shape.dims().end()});
  const std::string& x = layer.input();
  const std::string square = graph.add("Mul", {x, x});
  const std::string mean =
      graph.reduce("ReduceMean", square, counted(shape.rank() - axis, axis), true);
  const std::string root =
      graph.add("Sqrt", {graph.add("Add", {mean, graph.number(settings.eps())})});
  std::string y = graph.add("Div", {x, root});
  if (settings.affine())
    y = graph.add("Mul", {y, graph.constant(layer.weight(0).reshaped(inner), "scale")});
  finish(layer, graph, y);
}

/// InstanceNormalization, with `scale` and `bias` or with 1 and 0.
std::string instance_norm(GraphBuilder& graph, const std::string& x, int64_t channels, double eps,
                          const std::optional<Array>& scale, const std::optional<Array>& bias) {
  const auto each = static_cast<size_t>(channels);
  const auto constant = [&](const std::optional<Array>& values, double otherwise,
                            std::string_view hint) {
    return values ? graph.constant(values->reshaped(Shape{channels}), hint)
                  : graph.floats(Shape{channels}, std::vector<double>(each, otherwise));
  };
  return graph.add("InstanceNormalization",
                   {x, constant(scale, 1, "scale"), constant(bias, 0, "bias")}, {{"epsilon", eps}});
}

void export_instance_norm(const ExportedLayer& layer, GraphBuilder& graph) {
  const InstanceNormParameter& settings = layer.param().instance_norm_param();
  const Shape& shape = layer.bottom();
  size_t i = 0;
  const std::optional<Array> scale = next_weight(layer, settings.scale_term(), i);
  const std::optional<Array> bias = next_weight(layer, settings.bias_term(), i);
  finish(layer, graph, instance_norm(graph, layer.input(), shape[1], settings.eps(), scale, bias));
}

void export_group_norm(const ExportedLayer& layer, GraphBuilder& graph) {
  const GroupNormParameter& settings = layer.param().group_norm_param();
  const Shape& shape = layer.bottom();
  const int64_t groups = settings.group();
  size_t i = 0;
  const std::optional<Array> scale = next_weight(layer, settings.scale_term(), i);
  const std::optional<Array> bias = next_weight(layer, settings.bias_term(), i);
  const std::string parts =
      graph.reshape(layer.input(), Shape{shape[0], groups, shape.count(1) / groups});
  const std::string of_parts =
      instance_norm(graph, parts, groups, settings.eps(), std::nullopt, std::nullopt);
  std::string y = graph.reshape(of_parts, shape);
  if (scale) y = graph.add("Mul", {y, of_channels(graph, *scale, shape.rank(), "scale")});
  if (bias) y = graph.add("Add", {y, of_channels(graph, *bias, shape.rank(), "bias")});
  finish(layer, graph, y);
}

void export_mvn(const ExportedLayer& layer, GraphBuilder& graph) {
  const MVNParameter& settings = layer.param().mvn_param();
  const int rank = layer.bottom().rank(), first = settings.across_channels() ? 1 : 2;
  const std::string& x = layer.input();
  if (rank <= first) {  // groups of one value
    graph.add("Sub", {x, x}, {}, layer.output());
    return;
  }
  const std::vector<int64_t> axes = counted(rank - first, first);
  const std::string mean = graph.reduce("ReduceMean", x, axes, true);
  const std::string centred = graph.add("Sub", {x, mean});
  if (!settings.normalize_variance()) return finish(layer, graph, centred);
  const std::string square = graph.add("Mul", {centred, centred});
  const std::string deviation = graph.add("Sqrt", {graph.reduce("ReduceMean", square, axes, true)});
  // Published: eps is added to the deviation, not to the variance.
  graph.add("Div", {centred, graph.add("Add", {deviation, graph.number(settings.eps())})}, {},
            layer.output());
}

void export_normalize(const ExportedLayer& layer, GraphBuilder& graph) {
  const NormalizeParameter& settings = layer.param().norm_param();
  const Shape& shape = layer.bottom();
  const std::string& x = layer.input();
  const std::vector<int64_t> axes =
      settings.across_spatial() ? counted(shape.rank() - 1, 1) : std::vector<int64_t>{1};
  const std::string sum = graph.reduce("ReduceSum", graph.add("Mul", {x, x}), axes, true);
  const std::string norm =
      graph.add("Sqrt", {graph.add("Add", {sum, graph.number(settings.eps())})});
  const std::string y = graph.add("Div", {x, norm});
  const Array scale = layer.weight(0);
  const std::string factor = settings.channel_shared()
                                 ? graph.constant(scale.reshaped(Shape{}), "scale")
                                 : of_channels(graph, scale, shape.rank(), "scale");
  graph.add("Mul", {y, factor}, {}, layer.output());
}

/// The rank that LRN takes in most runtimes is 4.
void export_lrn(const ExportedLayer& layer, GraphBuilder& graph) {
  const LRNParameter& settings = layer.param().lrn_param();
  const Shape& shape = layer.bottom();
  const int64_t size = settings.local_size();
  if (settings.norm_region() == LRNParameter::ACROSS_CHANNELS) {
    const bool as_images = shape.rank() == 4;
    const std::string x =
        as_images ? layer.input()
                  : graph.reshape(layer.input(), Shape{shape[0], shape[1], shape.count(2), 1});
    const std::string y = graph.add("LRN", {x},
                                    {{"size", size},
                                     {"alpha", settings.alpha()},
                                     {"beta", settings.beta()},
                                     {"bias", settings.k()}});
    return finish(layer, graph, as_images ? y : graph.reshape(y, shape));
  }
  const std::string& x = layer.input();
  const int64_t pad = (size - 1) / 2;
  const std::string mean = graph.add("AveragePool", {graph.add("Mul", {x, x})},
                                     {{"kernel_shape", std::vector<int64_t>{size, size}},
                                      {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                                      {"strides", std::vector<int64_t>{1, 1}},
                                      {"count_include_pad", 1}});
  const std::string sum = plus(graph, times(graph, mean, settings.alpha()), 1);
  const std::string power = graph.add("Pow", {sum, graph.number(settings.beta())});
  graph.add("Div", {x, power}, {}, layer.output());
}

}  // namespace

void add_norm_exporters(ExporterTable& table) {
  table.add("BN", export_bn);
  table.add("BatchNorm", export_batch_norm);
  table.add("GroupNorm", export_group_norm);
  table.add("InstanceNorm", export_instance_norm);
  table.add("LRN", export_lrn);
  table.add("LayerNorm", export_layer_norm);
  table.add("MVN", export_mvn);
  table.add("Normalize", export_normalize);
  table.add("RMSNorm", export_rms_norm);
}

}  // namespace crema::onnx
