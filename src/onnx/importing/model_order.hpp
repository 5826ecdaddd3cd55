// The order in which the nodes of a graph of a model can run.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <vector>

#include "proto/onnx/onnx.pb.h"

namespace crema::onnx {

/// Indices of the nodes: their own order if each follows what it reads, else the nearest one that
/// does. Error for a cycle, which names its nodes.
std::vector<int> order_of(const google::protobuf::RepeatedPtrField<NodeProto>& nodes);

}  // namespace crema::onnx
