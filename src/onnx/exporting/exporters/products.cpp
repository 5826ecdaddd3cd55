// Products of matrices.
#include <cmath>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// Added to scores of keys that do not count: their exponentials are 0.
constexpr double kFar = -1e30;

/// A matrix with rows and columns exchanged.
Array exchanged(const Array& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  std::vector<int64_t> sources;
  sources.reserve(static_cast<size_t>(rows * columns));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) sources.push_back(r * columns + c);
  }
  return matrix.taken(Shape{columns, rows}, sources);
}

void export_inner_product(const ExportedLayer& layer, GraphBuilder& graph) {
  const InnerProductParameter& settings = layer.param().inner_product_param();
  const Shape &from = layer.bottom(), &to = layer.top();
  const int axis = from.canonical_axis(settings.axis());
  const int64_t inputs = from.count(axis), outputs = to[-1];
  std::string x = layer.input();
  const bool transposed = settings.transpose();
  const Array weights =
      layer.weight(0).reshaped(transposed ? Shape{inputs, outputs} : Shape{outputs, inputs});
  const auto bias = [&] {
    return graph.constant(layer.weight(1).reshaped(Shape{outputs}), "bias");
  };
  std::string y;
  if (axis <= 1) {
    if (axis == 0) {
      x = graph.reshape(x, std::vector<int64_t>{1, inputs});
    } else if (from.rank() > 2) {
      x = graph.add("Flatten", {x}, {{"axis", 1}});
    }
    Names factors{x, graph.constant(weights, "weight")};
    if (settings.bias_term()) factors.push_back(bias());
    y = graph.add("Gemm", factors, {{"transB", transposed ? 0 : 1}});
    if (axis == 0) y = graph.reshape(y, std::vector<int64_t>{outputs});
  } else {
    if (from.rank() > axis + 1) {
      std::vector<int64_t> dims(from.dims().begin(), from.dims().begin() + axis);
      dims.push_back(inputs);
      x = graph.reshape(x, Shape(std::move(dims)));
    }
    const Array factor = transposed ? weights : exchanged(weights);
    y = graph.add("MatMul", {x, graph.constant(factor, "weight")});
    if (settings.bias_term()) y = graph.add("Add", {y, bias()});
  }
  finish(layer, graph, settings.relu() ? rectified(graph, y, settings.negative_slope()) : y);
}

/// With its last two axes exchanged.
std::string with_exchanged_axes(GraphBuilder& graph, const std::string& x, int rank) {
  std::vector<int64_t> order = counted(rank);
  std::swap(order[static_cast<size_t>(rank - 1)], order[static_cast<size_t>(rank - 2)]);
  return graph.transpose(x, order);
}

void export_mat_mul(const ExportedLayer& layer, GraphBuilder& graph) {
  const MatMulParameter& settings = layer.param().matmul_param();
  std::string a = layer.input(0), b = layer.input(1);
  if (settings.transpose_a()) a = with_exchanged_axes(graph, a, layer.bottom(0).rank());
  if (settings.transpose_b()) b = with_exchanged_axes(graph, b, layer.bottom(1).rank());
  finish(layer, graph, times(graph, graph.add("MatMul", {a, b}), settings.scale()));
}

void export_attention(const ExportedLayer& layer, GraphBuilder& graph) {
  const AttentionParameter& settings = layer.param().attention_param();
  const int64_t heads = settings.num_heads(), queries = layer.bottom(0)[1],
                keys = layer.bottom(1)[1], width = layer.bottom(0)[2] / heads,
                values = layer.bottom(2)[2];
  const auto head = [&](size_t i, int64_t steps, int64_t each, const std::vector<int64_t>& order) {
    const std::string parts =
        graph.reshape(layer.input(i), std::vector<int64_t>{0, steps, heads, each});
    return graph.transpose(parts, order);
  };
  const std::string q = head(0, queries, width, {0, 2, 1, 3});
  const std::string k = head(1, keys, width, {0, 2, 3, 1});
  const std::string v = head(2, keys, values / heads, {0, 2, 1, 3});
  const double scale = settings.has_scale() ? static_cast<double>(settings.scale())
                                            : 1 / std::sqrt(static_cast<double>(width));
  std::string scores = times(graph, graph.add("MatMul", {q, k}), scale);
  std::vector<double> before(static_cast<size_t>(queries * keys), 1.0);
  std::vector<double> far(before.size(), 0.0);
  if (settings.causal()) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = i + 1; j < keys; ++j) {
        before[static_cast<size_t>(i * keys + j)] = 0;
        far[static_cast<size_t>(i * keys + j)] = kFar;
      }
    }
    scores = graph.add("Add", {scores, graph.floats(Shape{queries, keys}, far, "causal")});
  }
  std::string counts;  // (N, 1, 1, keys): 1 where a key counts, else 0
  if (layer.bottoms() > 3) {
    if (layer.bottom(3).rank() == 1) {
      std::vector<double> places;
      for (const int64_t j : counted(keys)) places.push_back(static_cast<double>(j));
      counts = graph.add("Less", {graph.floats(Shape{1, keys}, places, "places"),
                                  graph.unsqueeze(layer.input(3), {1})});
    } else {
      counts = graph.add("Equal", {layer.input(3), graph.number(0)});
    }
    counts = graph.unsqueeze(graph.cast(counts, TensorProto::FLOAT), {1, 2});
    scores = graph.add("Add", {scores, times(graph, plus(graph, counts, -1), -kFar)});
  }
  std::string weights = graph.add("Softmax", {scores}, {{"axis", -1}});
  if (!counts.empty()) {
    // Of a query without keys, all weights are 0.
    weights = graph.add("Mul", {weights, counts});
    if (settings.causal())
      weights = graph.add("Mul", {weights, graph.floats(Shape{queries, keys}, before, "counts")});
  }
  const std::string sums = graph.add("MatMul", {weights, v});
  const std::string joined_heads = graph.transpose(sums, {0, 2, 1, 3});
  graph.reshape(joined_heads, std::vector<int64_t>{0, queries, values}, layer.output());
}

}  // namespace

void add_product_exporters(ExporterTable& table) {
  table.add("Attention", export_attention);
  table.add("InnerProduct", export_inner_product);
  table.add("MatMul", export_mat_mul);
}

}  // namespace crema::onnx
