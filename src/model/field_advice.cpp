#include "model/field_advice.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/published_types.hpp"
#include "crema/error.hpp"
#include "model/foreign_fields.hpp"

namespace crema {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

constexpr char kLayer[] = "LayerParameter";
constexpr char kV1Layer[] = "V1LayerParameter";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "a, b or c".
std::string one_of(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

// What a current layer has in the place of a field of the old formats.
std::string advice_for_replaced(const std::string& name, const std::string& value) {
  const auto advice = [&](const char* before, const char* example, const char* behind) {
    return text("; it belongs to the old `layers { }`: in `layer { }` write `param { ", before,
                value.empty() ? example : value, behind);
  };
  if (name == "blobs_lr") return advice("lr_mult: ", "1", " }`, one for each parameter blob");
  if (name == "weight_decay")
    return advice("decay_mult: ", "1", " }`, one for each parameter blob");
  if (name == "blob_share_mode") {
    return advice("name: \"...\" share_mode: ", "PERMISSIVE", " }`");
  }
  return "";
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
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"NetParameter", "a net"}, {"SolverParameter", "a solver"}, {"LabelMap", "a label map"}};
  for (const auto& [message, words] : kKinds) {
    const Descriptor* other =
        root.file()->pool()->FindMessageTypeByName(root.file()->package() + "." + message);
    if (other == nullptr || other == &root || other->FindFieldByName(name) == nullptr) continue;
    return text("; it is a field of ", words, " (", message, "): is this the right file?");
  }
  return "";
}

// What people call fields that are named in other words; "" for others.
std::string meant_field(const Descriptor& type, const std::string& name) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"learning_rate", "base_lr"},  {"base_rate", "base_lr"},
      {"rate", "base_lr"},           {"lr", "base_lr"},
      {"epochs", "max_epochs"},      {"iterations", "max_iter"},
      {"batch", "batch_size"},       {"seed", "random_seed"},
      {"optimizer", "type"},         {"lr_schedule", "lr_policy"},
      {"num_outputs", "num_output"}, {"decay", "weight_decay"}};
  for (const auto& [word, field] : kWords) {
    if (name == word && type.FindFieldByName(field) != nullptr) return field;
  }
  return "";
}

// "; it has the fields a, b" of a message with few of them.
std::string list_of_fields(const Descriptor& type) {
  constexpr int kMost = 8;
  if (type.field_count() == 0 || type.field_count() > kMost) return "";
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return text("; it has the field", names.size() == 1 ? " " : "s ", joined(names));
}

}  // namespace

std::string message_name(const Descriptor& type) {
  const std::string& package = type.file()->package();
  return package.empty() ? type.full_name() : type.full_name().substr(package.size() + 1);
}

std::string text_of(const Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated()) return "";
  const auto& reflection = *message.GetReflection();
  if (!reflection.HasField(message, field)) return "";
  if (field->enum_type() != nullptr) return reflection.GetEnum(message, field)->name();
  return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? reflection.GetString(message, field)
                                                              : "";
}

std::string advice_for_unknown(const std::vector<const Message*>& around, const std::string& name,
                               const std::string& value) {
  const Descriptor& type = *around.back()->GetDescriptor();
  const bool layer = type.name() == kLayer;
  const std::string layer_type =
      type.name().ends_with(kLayer) ? text_of(*around.back(), "type") : "";
  std::string advice = layer ? advice_for_replaced(name, value) : "";
  if (advice.empty()) advice = advice_for_foreign(type, name, value);
  if (!advice.empty()) return advice;
  for (size_t i = around.size() - 1; i-- > 0;) {
    const Descriptor& outer = *around[i]->GetDescriptor();
    if (outer.FindFieldByName(name) == nullptr) continue;
    return text("; it is a field of ", message_name(outer), ": is a '}' missing before it?");
  }
  // local_param would be the settings of a layer of type Local.
  std::string letters = lower(name);
  std::erase(letters, '_');
  if (layer && letters == lower(layer_type) + "param") {
    if (const std::string* others = published_type(layer_type)) {
      return others->empty()
                 ? text("; layer type '", layer_type, "' has no settings")
                 : text("; the settings of layer type '", layer_type, "' are ", *others);
    }
    return text("; layer type '", layer_type,
                "' has no settings here: load the plug-in that brings it, and write them as "
                "[package.",
                name, "] { }");
  }
  if (around.size() == 1) advice = advice_for_other_file(type, name);
  if (!advice.empty()) return advice;
  constexpr size_t kMostHolders = 8;
  const std::vector<std::string> inner = holders(type, name, layer_type);
  if (!inner.empty() && inner.size() <= kMostHolders) {
    return text("; it belongs inside ", one_of(inner), " { }");
  }
  if (const std::string meant = meant_field(type, name); !meant.empty())
    return text("; did you mean '", meant, "'?");
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  advice = did_you_mean(name, names);
  return advice.empty() ? list_of_fields(type) : advice;
}

std::string nearest_extension(const Descriptor& type, const std::string& name) {
  std::vector<const FieldDescriptor*> extensions;
  type.file()->pool()->FindAllExtensions(&type, &extensions);
  std::vector<std::string> full_names, last_words;
  for (const FieldDescriptor* extension : extensions) {
    full_names.push_back(extension->full_name());
    last_words.push_back(extension->name());
  }
  const std::string near = nearest_name(name, full_names);
  if (!near.empty()) return near;
  const std::string word = nearest_name(name.substr(name.rfind('.') + 1), last_words);
  const auto found = std::find(last_words.begin(), last_words.end(), word);
  return found == last_words.end() ? ""
                                   : full_names[static_cast<size_t>(found - last_words.begin())];
}

std::string advice_for_enum(const Descriptor& message, const FieldDescriptor& field,
                            const std::string& value) {
  if (message.name() == kV1Layer && field.name() == "type" && value.starts_with('"')) {
    const std::string word = value.substr(1, value.size() - 2);
    const bool is_old_word = field.enum_type()->FindValueByName(word) != nullptr;
    return text(
        "; the old `layers { }` take a word such as CONVOLUTION; with `layer { }` the type "
        "is a text such as ",
        is_old_word ? "\"Convolution\"" : value);
  }
  const EnumDescriptor& type = *field.enum_type();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  // A quoted value may be right but for its quotes.
  std::string word = value;
  std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
  const std::string near = nearest_name(word, names);
  return text(near.empty() ? ";" : "; did you mean " + near + "?", " it takes one of ",
              one_of(names));
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
