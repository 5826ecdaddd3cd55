#include "model/source_map.hpp"

#include <algorithm>
#include <utility>

#include "model/field_path.hpp"

namespace crema {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using ParseInfoTree = TextFormat::ParseInfoTree;

// How far a path could be followed.
struct SourceMap::Found {
  int line = -1;  // Protocol Buffers' place of the last field that the text has
  int column = 0;
  // The message at the path's end; null when the path ends earlier or at a value.
  const Descriptor* type = nullptr;
  const ParseInfoTree* places = nullptr;
};

SourceMap::SourceMap(std::shared_ptr<const Parsed> parsed)
    : parsed_(std::move(parsed)), type_(parsed_->type), places_(&parsed_->places) {}

const std::string& SourceMap::file() const {
  static const std::string kNone;
  return parsed_ ? parsed_->source.name() : kNone;
}

SourceMap::Found SourceMap::find(std::string_view path) const {
  Found found;
  found.type = type_;
  found.places = places_;
  while (!path.empty() && found.places != nullptr) {
    const FieldStep step = take_step(path);
    const FieldDescriptor* field = found.type->FindFieldByName(step.name);
    const ParseInfoTree* places = std::exchange(found.places, nullptr);
    if (field == nullptr) break;
    const int index = field->is_repeated() ? step.index.value_or(0) : -1;
    const TextFormat::ParseLocation place = places->GetLocation(field, index);
    if (place.line < 0) break;
    found.line = place.line;
    found.column = place.column;
    found.type = field->message_type();
    if (found.type != nullptr) found.places = places->GetTreeForNested(field, index);
  }
  return found;
}

void SourceMap::set_elsewhere(const std::string& path, std::string place) {
  elsewhere_[path] = std::move(place);
}

Position SourceMap::position(std::string_view path) const {
  // "stepvalue[1]" is part of "stepvalue".
  const std::string_view whole = path.substr(0, std::min(path.find('['), path.size()));
  for (const auto& key : {path, whole}) {
    if (const auto found = elsewhere_.find(key); found != elsewhere_.end())
      return {found->second, 0, 0};
  }
  if (!parsed_) return {};
  const Found found = find(path);
  return parsed_->source.position(found.line, found.column);
}

SourceMap SourceMap::nested(std::string_view path) const {
  const Found found = find(path);
  if (found.places == nullptr) return {};
  SourceMap map = *this;
  map.elsewhere_.clear();
  map.type_ = found.type;
  map.places_ = found.places;
  return map;
}

}  // namespace crema
