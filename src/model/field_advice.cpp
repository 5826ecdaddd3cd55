#include "model/field_advice.hpp"

#include <algorithm>
#include <cctype>

#include "crema/error.hpp"

namespace crema {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

namespace {

constexpr char kLayer[] = "LayerParameter";
constexpr char kV1Layer[] = "V1LayerParameter";

// A field of the old formats, and what a current layer has in its place. The value goes in for '%'.
struct Replaced {
  const char* field;
  const char* example_value;
  const char* replacement;
};
constexpr Replaced kReplacedInLayer[] = {
    {"blobs_lr", "1", "`param { lr_mult: % }`, one for each parameter blob"},
    {"weight_decay", "1", "`param { decay_mult: % }`, one for each parameter blob"},
    {"blob_share_mode", "PERMISSIVE", "`param { name: \"...\" share_mode: % }`"},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> field_names(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// "a, b and c".
std::string listed(const std::vector<std::string>& words, std::string_view last_joint) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? std::string(last_joint) : ", ";
    text += words[i];
  }
  return text;
}

std::string advice_for_replaced(const std::string& name, const std::string& value) {
  for (const Replaced& replaced : kReplacedInLayer) {
    if (name != replaced.field) continue;
    std::string text = replaced.replacement;
    text.replace(text.find('%'), 1, value.empty() ? replaced.example_value : value);
    return "; it belongs to the old `layers { }`: in `layer { }` write " + text;
  }
  return "";
}

// Whether a name is the one that settings of this type of layer would have: local_param for Local.
bool is_own_settings(const std::string& name, const std::string& layer_type) {
  std::string letters = lower(name);
  std::erase(letters, '_');
  return !layer_type.empty() && letters == lower(layer_type) + "param";
}

// The messages that a message holds and that have the field: the one of the layer's own type, if it
// is among them, else all.
std::vector<std::string> holders(const Descriptor& type, const std::string& name,
                                 const std::string& layer_type) {
  std::vector<std::string> found;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const Descriptor* message = field.message_type();
    if (message == nullptr || message->FindFieldByName(name) == nullptr) continue;
    if (lower(message_name(*message)) == lower(layer_type) + "parameter") return {field.name()};
    found.push_back(field.name());
  }
  return found;
}

// The advice when the whole text is a solver where a net was wanted, or the other way round.
std::string advice_for_other_file(const Descriptor& root, const std::string& name) {
  struct Kind {
    const char* message;
    const char* words;
  };
  constexpr Kind kKinds[] = {
      {"NetParameter", "a net"}, {"SolverParameter", "a solver"}, {"LabelMap", "a label map"}};
  for (const Kind& kind : kKinds) {
    const Descriptor* other =
        root.file()->pool()->FindMessageTypeByName(root.file()->package() + "." + kind.message);
    if (other == nullptr || other == &root || other->FindFieldByName(name) == nullptr) continue;
    return concat("; it is a field of ", kind.words, " (", kind.message,
                  "): is this the right file?");
  }
  return "";
}

}  // namespace

std::string message_name(const Descriptor& type) {
  const std::string& package = type.file()->package();
  return package.empty() ? type.full_name() : type.full_name().substr(package.size() + 1);
}

std::string advice_for_unknown(const std::vector<const Descriptor*>& around,
                               const std::string& name, const std::string& value,
                               const std::string& layer_type) {
  const Descriptor& type = *around.back();
  if (type.name() == kLayer) {
    const std::string advice = advice_for_replaced(name, value);
    if (!advice.empty()) return advice;
  }
  for (size_t i = around.size() - 1; i-- > 0;) {
    if (around[i]->FindFieldByName(name) == nullptr) continue;
    return concat("; it is a field of ", message_name(*around[i]), ": is a '}' missing before it?");
  }
  if (type.name() == kLayer && is_own_settings(name, layer_type)) {
    return concat(
        "; layer type '", layer_type,
        "' has no settings here: load the plug-in that brings it, and write them as [package.",
        name, "] { }");
  }
  if (around.size() == 1) {
    const std::string advice = advice_for_other_file(type, name);
    if (!advice.empty()) return advice;
  }
  constexpr size_t kMostHolders = 6;
  const std::vector<std::string> inner = holders(type, name, layer_type);
  if (!inner.empty() && inner.size() <= kMostHolders) {
    return concat("; it belongs inside ", listed(inner, " or "), " { }");
  }
  return did_you_mean(name, field_names(type));
}

std::string advice_for_enum(const Descriptor& message, const FieldDescriptor& field,
                            const std::string& value) {
  if (message.name() == kV1Layer && field.name() == "type" && value.starts_with('"')) {
    return concat(
        "; the old `layers { }` take a word such as CONVOLUTION; with `layer { }` the type "
        "is a text such as ",
        value);
  }
  const EnumDescriptor& type = *field.enum_type();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  // A quoted value may be right but for its quotes.
  std::string word = value;
  std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
  const std::string near = nearest_name(word, names);
  return concat(near.empty() ? "" : "; did you mean " + near + "?", near.empty() ? ";" : "",
                " it takes one of ", listed(names, " or "));
}

std::string advice_for_unquoted(const Descriptor& message, const std::string& field,
                                const std::string& value) {
  const FieldDescriptor* old_type =
      message.file()->pool()->FindFieldByName(message.file()->package() + "." + kV1Layer + ".type");
  if (message.name() == kLayer && field == "type" && old_type != nullptr &&
      old_type->enum_type()->FindValueByName(value) != nullptr) {
    return "; words such as " + value +
           " belong to the old `layers { }`: write the type as in \"Convolution\"";
  }
  return "; write \"" + value + "\"";
}

}  // namespace crema
