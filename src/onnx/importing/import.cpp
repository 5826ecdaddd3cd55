#include "onnx/importing/import.hpp"

#include <new>

#include "onnx/importing/layer_writer.hpp"
#include "onnx/importing/metadata.hpp"
#include "onnx/model_file.hpp"

namespace crema::onnx {

namespace {

ImportedNet::End end_of(const Value& value) {
  return {.name = value.name,
          .type = value.type(),
          .shape = value.shape(),
          .is_bound = value.known.is_bound};
}

}  // namespace

ImportedNet import_model(const ModelProto& model, const ImportOptions& options) {
  ImportedNet result;
  const std::unique_ptr<Graph> graph = load_graph(model, options.shapes);
  infer_and_fold(*graph);
  simplify(*graph);
  result.notes = graph->notes;
  result.net = LayerWriter::write(*graph, result.notes);
  const Origin origin = origin_of(model);
  if (origin.ByteSizeLong() > 0) *result.net.mutable_origin() = origin;
  for (const Value* input : graph->inputs) result.inputs.push_back(end_of(*input));
  for (const Value* output : graph->outputs) result.outputs.push_back(end_of(*output));
  return result;
}

ImportedNet import_file(const std::string& path, const ImportOptions& options) {
  try {
    return import_model(read_model(path), options);
  } catch (Error& error) {
    if (!error.path().empty()) throw;
    throw Error(path, ": ", error.message()).about(path);
  } catch (const std::bad_alloc&) {
    throw Error(path, ": there is not enough memory for the model").about(path);
  }
}

}  // namespace crema::onnx
