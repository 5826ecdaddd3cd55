// A model of ONNX as a net of layers.
#pragma once

#include <string>
#include <vector>

#include "onnx/importing/graph.hpp"
#include "proto/net.pb.h"

namespace crema::onnx {

struct ImportedNet {
  /// With weights in its layers (`blobs`). Blobs have the names of the model's values where those
  /// are names of inputs and outputs. `origin` has labels and what becomes of pixels, from the
  /// model's metadata.
  NetParameter net;
  struct End {
    std::string name;
    ElementType type = TensorProto::FLOAT;
    Shape shape;
    bool is_bound = false;  // the shape is an upper bound
  };
  std::vector<End> inputs, outputs;
  std::vector<std::string> notes;  // what a user may want to know
};

struct ImportOptions {
  InputShapes shapes = {};
  /// The same, where the model leaves sizes open; passed over where it does not, or has another
  /// number of axes.
  InputShapes open_shapes = {};
};

/// The names of the model's inputs, without those of initialisers, which old models list too.
std::vector<std::string> input_names(const ModelProto& model);

/// Errors as of load_graph() and LayerWriter::write().
ImportedNet import_model(const ModelProto& model, const ImportOptions& options = {});
/// Reads the file (model_file.hpp) first. Errors name it.
ImportedNet import_file(const std::string& path, const ImportOptions& options = {});

}  // namespace crema::onnx
