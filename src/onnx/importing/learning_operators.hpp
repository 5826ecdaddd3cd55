// Operators of the domain "ai.onnx.ml" that converters of scikit-learn write around a multilayer
// perceptron, as operators of ONNX itself.
#pragma once

#include <vector>

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

/// ArrayFeatureExtractor, Normalizer and Scaler of "ai.onnx.ml".
bool is_learning_operator(const NodeProto& node);
/// Appends the nodes that compute it.
void add_learning_operator(Graph& graph, const NodeProto& node, const std::vector<Value*>& inputs,
                           const std::vector<Value*>& outputs);

}  // namespace crema::onnx
