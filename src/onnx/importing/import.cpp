#include "onnx/importing/import.hpp"

#include <algorithm>
#include <new>
#include <set>
#include <string_view>

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

bool leaves_open(const ValueInfoProto& input, const Shape& shape) {
  const auto& tensor = input.type().tensor_type();
  if (!tensor.has_shape()) return true;
  return tensor.shape().dim_size() == shape.rank() &&
         std::ranges::any_of(tensor.shape().dim(),
                             [](const auto& dim) { return !dim.has_dim_value(); });
}

InputShapes shapes_of(const ModelProto& model, const ImportOptions& options) {
  InputShapes shapes = options.shapes;
  for (const ValueInfoProto& input : model.graph().input()) {
    const auto found = options.open_shapes.find(input.name());
    if (found != options.open_shapes.end() && leaves_open(input, found->second))
      shapes.try_emplace(input.name(), found->second);
  }
  return shapes;
}

}  // namespace

std::vector<std::string> input_names(const ModelProto& model) {
  std::set<std::string_view> initialisers;
  for (const TensorProto& tensor : model.graph().initializer()) initialisers.insert(tensor.name());
  for (const SparseTensorProto& tensor : model.graph().sparse_initializer())
    initialisers.insert(tensor.values().name());
  std::vector<std::string> names;
  for (const ValueInfoProto& input : model.graph().input()) {
    if (!initialisers.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

ImportedNet import_model(const ModelProto& model, const ImportOptions& options) {
  ImportedNet result;
  const std::unique_ptr<Graph> graph = load_graph(model, shapes_of(model, options));
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
