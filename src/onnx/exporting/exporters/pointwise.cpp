// Layers that compute each element by itself.
#include <cmath>
#include <numbers>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// A layer that is the operator of ONNX without settings.
template <const char* kOperator>
void export_plain(const ExportedLayer& layer, GraphBuilder& graph) {
  graph.add(kOperator, {layer.input()}, {}, layer.output());
}
constexpr char kSigmoid[] = "Sigmoid", kTanh[] = "Tanh", kAbs[] = "Abs", kSoftplus[] = "Softplus";

void export_relu(const ExportedLayer& layer, GraphBuilder& graph) {
  rectified(graph, layer.input(), layer.param().relu_param().negative_slope(), layer.output());
}

void export_relu6(const ExportedLayer& layer, GraphBuilder& graph) {
  graph.clip(layer.input(), 0, 6, layer.output());
}

void export_prelu(const ExportedLayer& layer, GraphBuilder& graph) {
  Shape slope = layer.weight_shape(0);
  if (slope.count() == 1) {
    slope = Shape{1};
  } else {
    std::vector<int64_t> dims(static_cast<size_t>(layer.bottom().rank() - 1), 1);
    dims[0] = slope.count();
    slope = Shape(std::move(dims));
  }
  graph.add("PRelu", {layer.input(), graph.constant(layer.weight(0).reshaped(slope), "weight")}, {},
            layer.output());
}

void export_elu(const ExportedLayer& layer, GraphBuilder& graph) {
  const ELUParameter& settings = layer.param().elu_param();
  const std::string y = graph.add("Elu", {layer.input()}, {{"alpha", settings.alpha()}});
  finish(layer, graph, times(graph, y, settings.lambda()));
}

void export_gelu(const ExportedLayer& layer, GraphBuilder& graph) {
  const std::string& x = layer.input();
  const bool by_tanh = layer.param().gelu_param().approximate() == GELUParameter::TANH;
  if (graph.opset() >= 20) {
    graph.add("Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}},
              layer.output());
    return;
  }
  std::string inner;
  if (by_tanh) {
    const std::string cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
    const std::string sum = graph.add("Add", {x, times(graph, cube, 0.044715)});
    inner = graph.add("Tanh", {times(graph, sum, std::sqrt(2 / std::numbers::pi))});
  } else {
    inner = graph.add("Erf", {times(graph, x, std::numbers::sqrt2 / 2)});
  }
  const std::string share = plus(graph, inner, 1);
  graph.add("Mul", {times(graph, x, 0.5), share}, {}, layer.output());
}

void export_hard_sigmoid(const ExportedLayer& layer, GraphBuilder& graph) {
  const HardSigmoidParameter& settings = layer.param().hard_sigmoid_param();
  graph.add("HardSigmoid", {layer.input()},
            {{"alpha", settings.alpha()}, {"beta", settings.beta()}}, layer.output());
}

void export_hard_swish(const ExportedLayer& layer, GraphBuilder& graph) {
  if (graph.opset() >= 14) {
    graph.add("HardSwish", {layer.input()}, {}, layer.output());
    return;
  }
  const std::string gate =
      graph.add("HardSigmoid", {layer.input()}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  graph.add("Mul", {layer.input(), gate}, {}, layer.output());
}

void export_mish(const ExportedLayer& layer, GraphBuilder& graph) {
  if (graph.opset() >= 18) {
    graph.add("Mish", {layer.input()}, {}, layer.output());
    return;
  }
  const std::string gate = graph.add("Tanh", {graph.add("Softplus", {layer.input()})});
  graph.add("Mul", {layer.input(), gate}, {}, layer.output());
}

void export_swish(const ExportedLayer& layer, GraphBuilder& graph) {
  const std::string gate =
      graph.add("Sigmoid", {times(graph, layer.input(), layer.param().swish_param().beta())});
  graph.add("Mul", {layer.input(), gate}, {}, layer.output());
}

void export_clip(const ExportedLayer& layer, GraphBuilder& graph) {
  const ClipParameter& settings = layer.param().clip_param();
  graph.clip(layer.input(), settings.min(), settings.max(), layer.output());
}

void export_exp(const ExportedLayer& layer, GraphBuilder& graph) {
  const ExpParameter& settings = layer.param().exp_param();
  const double of_base = settings.base() == -1 ? 1 : std::log(static_cast<double>(settings.base()));
  const std::string power = plus(graph, times(graph, layer.input(), settings.scale() * of_base),
                                 settings.shift() * of_base);
  graph.add("Exp", {power}, {}, layer.output());
}

void export_log(const ExportedLayer& layer, GraphBuilder& graph) {
  const LogParameter& settings = layer.param().log_param();
  const std::string x =
      plus(graph, times(graph, layer.input(), settings.scale()), settings.shift());
  const double factor =
      settings.base() == -1 ? 1 : 1 / std::log(static_cast<double>(settings.base()));
  finish(layer, graph, times(graph, graph.add("Log", {x}), factor));
}

void export_power(const ExportedLayer& layer, GraphBuilder& graph) {
  const PowerParameter& settings = layer.param().power_param();
  const std::string x =
      plus(graph, times(graph, layer.input(), settings.scale()), settings.shift());
  const double power = settings.power();
  if (power == 1) return finish(layer, graph, x);
  if (power == 2) {
    graph.add("Mul", {x, x}, {}, layer.output());
  } else if (power == 0.5) {
    graph.add("Sqrt", {x}, {}, layer.output());
  } else if (power == -1) {
    graph.add("Reciprocal", {x}, {}, layer.output());
  } else {
    graph.add("Pow", {x, graph.number(power)}, {}, layer.output());
  }
}

void export_threshold(const ExportedLayer& layer, GraphBuilder& graph) {
  const double threshold = layer.param().threshold_param().threshold();
  const std::string above = graph.add("Greater", {layer.input(), graph.number(threshold)});
  graph.cast(above, TensorProto::FLOAT, layer.output());
}

void export_dropout(const ExportedLayer& layer, GraphBuilder& graph) {
  const DropoutParameter& settings = layer.param().dropout_param();
  const double factor =
      settings.scale_train() ? 1 : 1 - static_cast<double>(settings.dropout_ratio());
  finish(layer, graph, times(graph, layer.input(), factor));
}

void export_unchanged(const ExportedLayer& layer, GraphBuilder& graph) {
  for (size_t i = 0; i < layer.tops(); ++i) finish(layer, graph, layer.input(), i);
}

void export_noise(const ExportedLayer& layer, GraphBuilder& graph) {
  if (layer.param().noise_param().in_test())
    throw Error(
        "adds random numbers, also in the test phase, which no runtime draws alike; set "
        "in_test: false, or remove the layer");
  export_unchanged(layer, graph);
}

}  // namespace

void add_pointwise_exporters(ExporterTable& table) {
  table.add("AbsVal", export_plain<kAbs>);
  table.add("BNLL", export_plain<kSoftplus>);
  table.add("Clip", export_clip);
  table.add("Dropout", export_dropout);
  table.add("ELU", export_elu);
  table.add("Exp", export_exp);
  table.add("GELU", export_gelu);
  table.add("HardSigmoid", export_hard_sigmoid);
  table.add("HardSwish", export_hard_swish);
  table.add("Log", export_log);
  table.add("Mish", export_mish);
  table.add("Noise", export_noise);
  table.add("PReLU", export_prelu);
  table.add("Power", export_power);
  table.add("ReLU", export_relu);
  table.add("ReLU6", export_relu6);
  table.add("Sigmoid", export_plain<kSigmoid>);
  table.add("SpatialDropout", export_unchanged);
  table.add("Split", export_unchanged);
  table.add("Swish", export_swish);
  table.add("TanH", export_plain<kTanh>);
  table.add("Threshold", export_threshold);
}

}  // namespace crema::onnx
