// Warns of settings that have no effect here: those of forks, and those of other layer types. Says
// what was upgraded.
#include <algorithm>

#include "core/published_engine.hpp"
#include "core/published_types.hpp"
#include "model/set_field.hpp"
#include "model/source_map.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The fields of a net that this library reads. All others have no effect.
constexpr int kNetFields[] = {
    NetParameter::kNameFieldNumber,           NetParameter::kInputFieldNumber,
    NetParameter::kInputShapeFieldNumber,     NetParameter::kInputDimFieldNumber,
    NetParameter::kStateFieldNumber,          NetParameter::kForceBackwardFieldNumber,
    NetParameter::kDebugInfoFieldNumber,      NetParameter::kLayerFieldNumber,
    NetParameter::kLayersFieldNumber,         NetParameter::kPrecisionFieldNumber,
    NetParameter::kMathFieldNumber,           NetParameter::kDeterministicFieldNumber,
    NetParameter::kWorkspaceLimitFieldNumber, NetParameter::kOriginFieldNumber};

/// The fields of a layer that have no effect.
constexpr int kIgnoredLayerFields[] = {LayerParameter::kForwardTypeFieldNumber,
                                       LayerParameter::kBackwardTypeFieldNumber,
                                       LayerParameter::kForwardMathFieldNumber,
                                       LayerParameter::kBackwardMathFieldNumber,
                                       LayerParameter::kDebugFieldNumber,
                                       LayerParameter::kCudnnMathOverrideFieldNumber,
                                       LayerParameter::kMultinodeFieldNumber,
                                       LayerParameter::kMnActivationParamFieldNumber,
                                       LayerParameter::kMnGradCompressParamFieldNumber,
                                       LayerParameter::kQuantizationParamFieldNumber,
                                       LayerParameter::kTrtParamFieldNumber};

template <class Ignored>
std::vector<std::string> ignored_fields(const Message& message, const Ignored& ignored) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::vector<std::string> names;
  for (const auto* field : fields) {
    if (ignored(field->number()) && differs_from_default(message, field))
      names.emplace_back(field->name());
  }
  return names;
}

bool contains(std::span<const int> numbers, int number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

/// The settings of other types that the layer has. Layers of plug-ins read what they like.
std::vector<std::string> settings_of_others(const LayerParameter& layer) {
  std::vector<const FieldDescriptor*> fields;
  const std::string* others = published_type(layer.type());
  if (others != nullptr) layer.GetReflection()->ListFields(layer, &fields);
  std::vector<std::string> names;
  for (const auto* field : fields) {
    const bool settings = field->message_type() != nullptr && !field->is_repeated() &&
                          !field->is_extension() && !contains(kIgnoredLayerFields, field->number());
    if (settings && !reads_settings(layer.type(), field->name())) names.push_back(field->name());
  }
  return names;
}

/// "layer 'a'" or "layer 'a' and 2 more".
std::string some_layers(const std::vector<std::string>& names) {
  const size_t more = names.size() - 1;
  return text("layer '", names[0], "'", more ? text(" and ", more, " more") : "");
}

void note_settings_of_others(Plan& plan, const NetParameter& net) {
  // type and settings -> layers that have them
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> found;
  for (const auto& layer : net.layer()) {
    for (const auto& settings : settings_of_others(layer)) {
      found[{layer.type(), settings}].push_back(layer.name());
    }
  }
  for (const auto& [key, names] : found) {
    const auto& [type, settings] = key;
    plan.note(text(settings, " (", some_layers(names), ") has no effect on layers of type ", type,
                   "; remove it, or correct the type"),
              Severity::warning);
  }
}

/// Whether a filler lacks the type that its settings are of: it is constant, and reads `value`.
bool lacks_type(const FillerParameter& filler) {
  return !filler.has_type() && !filler.has_value() &&
         (filler.has_std() || filler.has_mean() || filler.has_min() || filler.has_max() ||
          filler.has_variance_norm());
}

/// Adds the layer to `found` under each filler in `message`, its settings, that lacks its type.
void find_fillers_without_type(const LayerParameter& layer, const Message& message,
                               std::map<std::string, std::vector<std::string>>& found) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const Message& part = reflection.GetMessage(message, field);
    const auto* filler = dynamic_cast<const FillerParameter*>(&part);
    if (filler == nullptr) {
      find_fillers_without_type(layer, part, found);
    } else if (lacks_type(*filler)) {
      std::vector<std::string>& layers = found[std::string(field->name())];
      if (layers.empty() || layers.back() != layer.name()) layers.push_back(layer.name());
    }
  }
}

void note_fillers_without_type(Plan& plan, const NetParameter& net) {
  std::map<std::string, std::vector<std::string>> found;  // filler -> layers that have it
  for (const auto& layer : net.layer()) find_fillers_without_type(layer, layer, found);
  for (const auto& [filler, names] : found) {
    plan.note(text(filler, " (", some_layers(names),
                   ") has no type: it is constant and fills with 0; add the type, such as "
                   "type: \"gaussian\" for std"),
              Severity::warning);
  }
}

}  // namespace

std::string settings_with_bias_term(const std::string& type) {
  const std::string* others = published_type(type);
  const auto& fields = *LayerParameter::descriptor();
  for (int i = 0; others != nullptr && i < fields.field_count(); ++i) {
    const FieldDescriptor& field = *fields.field(i);
    if (field.message_type() != nullptr && reads_settings(type, field.name()) &&
        field.message_type()->FindFieldByName("bias_term") != nullptr)
      return std::string(field.name());
  }
  return {};
}

void note_ignored_fields(Plan& plan, const NetParameter& net) {
  std::vector<std::string> ignored =
      ignored_fields(net, [](int number) { return !contains(kNetFields, number); });
  std::map<std::string, std::vector<std::string>> layers;  // field -> layers that set it
  for (const auto& layer : net.layer()) {
    for (const auto& field :
         ignored_fields(layer, [](int number) { return contains(kIgnoredLayerFields, number); })) {
      layers[field].push_back(layer.name());
    }
    if (is_published_engine(layer.engine())) layers["engine"].push_back(layer.name());
  }
  for (const auto& [field, names] : layers) {
    ignored.push_back(text(field, " (", some_layers(names), ")"));
  }
  if (!ignored.empty()) {
    plan.note("settings of the net that have no effect: " + joined(ignored), Severity::warning);
  }
  note_settings_of_others(plan, net);
  note_fillers_without_type(plan, net);
}

void note_upgrade(Plan& plan, const NetUpgrade& upgrade, const SourceMap& source) {
  for (const auto& warning : upgrade.warnings) plan.note(warning, Severity::warning);
  if (!upgrade.is_old) return;
  const std::string command = source.file().empty() ? "crema upgrade-net-proto-binary OLD NEW"
                              : source.is_nested()
                                  ? text("crema upgrade-solver-proto-text ", source.file(), " NEW")
                                  : text("crema upgrade-net-proto-text ", source.file(), " NEW");
  plan.note(text("the net is in an old form and was upgraded (", joined(upgrade.changes, "; "),
                 "); `", command, "` writes it in the current form"));
}

}  // namespace crema
