// Nodes of the domain "crema": the operator is the type of a layer, the attributes are fields of
// its settings, and the constants at the end of the inputs are its weights.
#pragma once

#include <string>

#include "onnx/importing/graph.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {

/// Inputs of the node that are bottoms; those behind them are weights.
size_t bottoms_of(const Node& node);

/// The layer without name, bottoms, tops and weights. An attribute is a field of the settings of
/// the type: numbers and lists of numbers as they are, enumerations as the names of their values,
/// messages as prototxt; or a field of LayerParameter, such as "loss_param", as prototxt. Error for
/// an unknown type, and for an attribute that is no such field or does not fit it.
LayerParameter layer_of(const Node& node);

/// Types and shapes of the node's outputs: those that are known or that the model states, or else
/// those of the layer, which is made once.
void infer_layer_node(Graph& graph, Node& node);

}  // namespace crema::onnx
