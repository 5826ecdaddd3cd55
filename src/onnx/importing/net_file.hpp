// Files with nets and with weights, in every format: a name that ends in ".onnx" is a model of
// ONNX, which is both.
#pragma once

#include <string>
#include <vector>

#include "model/array_file.hpp"
#include "model/source_map.hpp"
#include "proto/net.pb.h"

namespace crema {

/// Reads a net: a prototxt as read_text_proto() does, or a model of ONNX as a net with its weights.
/// `notes`, if given, gets what a user may want to know of the import. Errors as of
/// read_text_proto() and onnx::import_file().
void read_net(const std::string& path, NetParameter& out, SourceMap* map = nullptr,
              std::vector<std::string>* notes = nullptr);

/// Reads weights: a file as read_weights() reads it, or a model of ONNX. Layers of models have the
/// names that they have in the net of the same model.
void read_net_weights(const std::string& path, NetParameter& out);

/// Reads arrays as read_array_file() does, or those of the layers that a model of ONNX becomes, as
/// a weights file of the format "ONNX".
void read_net_arrays(const std::string& path, ArrayFile& read);

/// What weights say of where they come from (model/weights_origin.hpp), models of ONNX too. Empty
/// if they say nothing, or cannot be read.
Origin origin_of_net(const std::string& path);
/// The names of classes in it, in the order of labels: those of the first file that has some.
std::vector<std::string> class_names_of_nets(const std::vector<std::string>& paths);

}  // namespace crema
