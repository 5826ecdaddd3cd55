// Messages that Python gives: the bytes of a serialised message, a prototxt, or the path of one.
#pragma once

#include <google/protobuf/message.h>
#include <nanobind/nanobind.h>

#include <string>

#include "model/source_map.hpp"

namespace crema::python {

/// `kind`: "file", "text" or "message". The file of a net may be a model of ONNX, which brings its
/// weights. Error if it cannot be read.
void read_message(const std::string& source, const std::string& kind,
                  google::protobuf::Message& out, SourceMap& map);

/// The bytes of a serialised message.
nanobind::bytes bytes_of(const google::protobuf::Message& message);

/// A std::string with the bytes.
inline std::string string_of(const nanobind::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

}  // namespace crema::python
