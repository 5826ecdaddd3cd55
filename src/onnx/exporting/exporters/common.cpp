#include "onnx/exporting/exporters/common.hpp"

#include <numeric>

namespace crema::onnx {

std::vector<int64_t> counted(int64_t count, int64_t first) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string times(GraphBuilder& graph, const std::string& x, double factor) {
  return factor == 1 ? x : graph.add("Mul", {x, graph.number(factor)});
}

std::string plus(GraphBuilder& graph, const std::string& x, double summand) {
  return summand == 0 ? x : graph.add("Add", {x, graph.number(summand)});
}

std::string rectified(GraphBuilder& graph, const std::string& x, double slope, std::string output) {
  if (slope == 0) return graph.add("Relu", {x}, {}, std::move(output));
  return graph.add("LeakyRelu", {x}, {{"alpha", slope}}, std::move(output));
}

void finish(const ExportedLayer& layer, GraphBuilder& graph, const std::string& x, size_t top) {
  graph.finish(x, layer.output(top));
}

}  // namespace crema::onnx
