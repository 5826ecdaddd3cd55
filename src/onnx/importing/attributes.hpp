// Attributes of nodes that importing makes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/onnx/onnx.pb.h"

namespace crema::onnx {

AttributeProto int_attribute(std::string_view name, int64_t value);
AttributeProto float_attribute(std::string_view name, double value);
AttributeProto ints_attribute(std::string_view name, const std::vector<int64_t>& values);
AttributeProto string_attribute(std::string_view name, std::string_view value);

/// Gives the node the attribute, in place of one of the same name.
void set_attribute(NodeProto& node, AttributeProto attribute);
void remove_attribute(NodeProto& node, std::string_view name);

}  // namespace crema::onnx
