// Names of layers, from the names that exporters give to weights and nodes.
#pragma once

#include <string>
#include <string_view>

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

/// "layer1.0.conv1" of a node that reads "layer1.0.conv1.weight"; "" where weights tell nothing.
std::string name_of_weights(const Node& node);
/// "layer1.0.conv1" of a node that is called "/layer1/layer1.0/conv1/Conv"; the operator in lower
/// case where its name tells nothing.
std::string name_of_node(const Node& node);
/// The name of a layer that holds the constant.
std::string constant_name_of(const Value& value);

}  // namespace crema::onnx
