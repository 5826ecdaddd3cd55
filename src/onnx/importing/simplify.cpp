#include "onnx/importing/graph.hpp"

namespace crema::onnx {

void simplify(Graph& graph) { graph.remove_dead(); }

}  // namespace crema::onnx
