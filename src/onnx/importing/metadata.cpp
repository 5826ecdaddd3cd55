#include "onnx/importing/metadata.hpp"

#include <string>

#include "core/json.hpp"
#include "crema/error.hpp"
#include "model/text_format.hpp"

namespace crema::onnx {

Origin origin_of(const ModelProto& model) {
  for (const StringStringEntryProto& entry : model.metadata_props()) {
    if (entry.key() != kOriginKey) continue;
    Origin origin;
    try {
      parse_text_proto(entry.value(), kOriginKey, origin);
      return origin;
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

void add_origin(const Origin& origin, ModelProto& model) {
  const auto add = [&](const char* key, std::string value) {
    StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add(kOriginKey, prototxt_of(origin));
  if (origin.class_name_size() == 0) return;
  std::string labels = "[";
  for (const std::string& name : origin.class_name()) {
    if (labels.size() > 1) labels += ", ";
    labels += json_string(name);
  }
  add(kLabelsKey, labels + "]");
}

}  // namespace crema::onnx
