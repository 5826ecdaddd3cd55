// Where the fields of a parsed message stand in its text.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "crema/error.hpp"
#include "model/source_text.hpp"

namespace crema {

/// A value: cheap to copy, and alive as long as any copy of it. An empty map (of a message that
/// came from elsewhere than a text) knows no place at all. Indices are those of the message as it
/// was parsed, before layers were filtered or upgraded.
class SourceMap {
 public:
  /// What a parser leaves: the text, the type of the message, and the places of its fields.
  struct Parsed {
    Parsed(SourceText text, const google::protobuf::Descriptor* message_type)
        : source(std::move(text)), type(message_type) {}

    SourceText source;
    const google::protobuf::Descriptor* type;
    google::protobuf::TextFormat::ParseInfoTree places;
  };

  SourceMap() = default;
  explicit SourceMap(std::shared_ptr<const Parsed> parsed);

  /// The file's name as the caller gave it, "" for an empty map.
  const std::string& file() const;

  /// Where a field stands, by a path such as "layer[3].convolution_param.stride[0]"; an index left
  /// out is 0. For a field that is not in the text: the nearest enclosing one that is, else the
  /// file.
  Position position(std::string_view path) const;
  /// The field at `path` came from elsewhere, which `place` names: position() then gives that.
  void set_elsewhere(const std::string& path, std::string place);

  /// Whether the message is a part of the one that the file has.
  bool is_nested() const { return parsed_ && places_ != &parsed_->places; }

  /// The map of the message at `path`, such as "net_param" of a solver. Empty when the text has
  /// none.
  SourceMap nested(std::string_view path) const;

 private:
  struct Found;
  Found find(std::string_view path) const;

  std::shared_ptr<const Parsed> parsed_;
  std::map<std::string, std::string, std::less<>> elsewhere_;  // path -> place
  // The message that paths start from: a part of parsed_.
  const google::protobuf::Descriptor* type_ = nullptr;
  const google::protobuf::TextFormat::ParseInfoTree* places_ = nullptr;
};

}  // namespace crema
