// Reads prototxt files: nets, solvers and whatever else is a message in text.
//
// All that the published tools accept is accepted, and a byte order mark besides. Every failure is
// an Error with a Position, the layer around it, and the line with a caret under the mistake.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "model/source_map.hpp"
#include "proto/net.pb.h"

namespace crema {

/// Reads the file, which find_model_file() may find elsewhere, into `out`, which loses what it
/// held, and where its fields stand into `map` when given. Throws an Error when there is no such
/// file, when it is a folder, empty, of another kind (HDF5, an image, a binary protocol buffer),
/// larger than 1 GiB, or does not parse.
void read_text_proto(const std::string& path, google::protobuf::Message& out,
                     SourceMap* map = nullptr);

/// The same for a text in memory; `name` stands for the file in positions.
void parse_text_proto(std::string_view text, const std::string& name,
                      google::protobuf::Message& out, SourceMap* map = nullptr);

/// The message as a prototxt.
std::string prototxt_of(const google::protobuf::Message& message);
/// Writes it, as write_binary_proto_atomically() writes binary files.
void write_text_proto_atomically(const std::string& path, const google::protobuf::Message& message);

/// Throws an Error when the net has both `layer` and `layers`, naming a line of each.
void check_layer_mix(const NetParameter& net, const SourceMap& map);

/// Throws an Error when the net has neither.
void check_has_layers(const NetParameter& net, const SourceMap& map);

}  // namespace crema
