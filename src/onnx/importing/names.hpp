// Names of layers, from the names that exporters give to weights and nodes.
#pragma once

#include <string>
#include <string_view>

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

/// "layer1.0.conv1" of a node that reads "layer1.0.conv1.weight", or that is called
/// "/layer1/layer1.0/conv1/Conv"; the operator in lower case where neither tells anything.
std::string layer_name_of(const Node& node);
/// The same of weights alone; "" if the node has none that are named.
std::string weights_name_of(const Node& node);
/// "reshape": a word for what the node does.
std::string operator_word_of(const Node& node);
/// The name of a layer that holds the constant.
std::string constant_name_of(const Value& value);

}  // namespace crema::onnx
