// What becomes of pixels in front of the net: as nodes, or as metadata.
#pragma once

#include <string>

#include "crema/tensor.hpp"
#include "onnx/exporting/graph_builder.hpp"
#include "proto/net.pb.h"

namespace crema::onnx {

/// Adds nodes that make of `input` (N, C, H, W), pixels from 0 to 255 in the order RGB, what the
/// net was trained on, and returns the value. Error if `origin` says of it what has no form here.
std::string add_preprocessing(const Origin& origin, const Shape& shape, const std::string& input,
                              GraphBuilder& graph);

/// What those nodes make `input`, values of the net's first input (N, C, H, W), of. Runs on the
/// host.
Tensor pixels_behind(const Origin& origin, const Tensor& input);

/// Adds the entries crema.mean (one number a channel, in the order of the net's channels),
/// crema.scale and crema.channels ("BGR", "RGB" or "gray"), as far as they are known: for
/// programs that do not read crema.origin.
void add_preprocessing_metadata(const Origin& origin, ModelProto& model);

}  // namespace crema::onnx
