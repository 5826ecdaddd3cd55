#include "onnx/importing/net_file.hpp"

#include "crema/error.hpp"
#include "model/model_folders.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "model/weights_origin.hpp"
#include "onnx/importing/import.hpp"
#include "onnx/importing/metadata.hpp"
#include "onnx/model_file.hpp"

namespace crema {

void read_net(const std::string& path, NetParameter& out, SourceMap* map,
              std::vector<std::string>* notes) {
  if (!onnx::is_onnx_name(path)) return read_text_proto(path, out, map);
  onnx::ImportedNet imported = onnx::import_file(find_model_file(path));
  out.Swap(&imported.net);
  if (map != nullptr) *map = SourceMap();
  if (notes != nullptr) *notes = std::move(imported.notes);
}

void read_net_weights(const std::string& path, NetParameter& out) {
  if (!onnx::is_onnx_name(path)) return read_weights(path, out);
  out = onnx::import_file(find_model_file(path)).net;
}

void read_net_arrays(const std::string& path, ArrayFile& read) {
  if (!onnx::is_onnx_name(path)) return read_array_file(path, read);
  read_net_weights(path, read.weights);
  read.path = path;
  read.kind = ArrayFile::Kind::weights;
  list_weights(read);
  read.format = "ONNX";
}

Origin origin_of_net(const std::string& path) {
  if (!onnx::is_onnx_name(path)) return origin_of_weights(path);
  try {
    return onnx::origin_of(onnx::read_model(find_model_file(path)));
  } catch (const Error&) {
    return {};  // loading it says why
  }
}

std::vector<std::string> class_names_of_nets(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Origin origin = origin_of_net(path);
    if (origin.class_name_size() > 0)
      return {origin.class_name().begin(), origin.class_name().end()};
  }
  return {};
}

}  // namespace crema
