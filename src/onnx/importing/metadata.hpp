// What a model of ONNX says of itself beside its graph, in metadata_props.
//
//   crema.origin   Origin (proto/net.proto) as a prototxt: classes, what becomes of pixels, who
//   made it crema.labels   names of classes as a JSON array, for other programs
#pragma once

#include "proto/net.pb.h"
#include "proto/onnx/onnx.pb.h"

namespace crema::onnx {

inline constexpr const char* kOriginKey = "crema.origin";
inline constexpr const char* kLabelsKey = "crema.labels";

/// What the model says. Metadata that are damaged are none.
Origin origin_of(const ModelProto& model);
/// Adds both entries.
void add_origin(const Origin& origin, ModelProto& model);

}  // namespace crema::onnx
