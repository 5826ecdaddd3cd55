// Warns of settings of forks that have no effect here.
#include <algorithm>

#include "model/set_field.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The fields of a net that this library reads. All others have no effect.
constexpr int kNetFields[] = {
    NetParameter::kNameFieldNumber,       NetParameter::kInputFieldNumber,
    NetParameter::kInputShapeFieldNumber, NetParameter::kInputDimFieldNumber,
    NetParameter::kStateFieldNumber,      NetParameter::kForceBackwardFieldNumber,
    NetParameter::kLayerFieldNumber,      NetParameter::kLayersFieldNumber};

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
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

void note_ignored_fields(Plan& plan, const NetParameter& net) {
  std::string list;
  auto add = [&](const std::string& entry) { list += (list.empty() ? "" : ", ") + entry; };
  for (const auto& name :
       ignored_fields(net, [](int number) { return !contains(kNetFields, number); })) {
    add(name);
  }
  std::map<std::string, std::vector<std::string>> layers;  // field -> layers that set it
  for (const auto& layer : net.layer()) {
    for (const auto& field :
         ignored_fields(layer, [](int number) { return contains(kIgnoredLayerFields, number); })) {
      layers[field].push_back(layer.name());
    }
  }
  for (const auto& [field, names] : layers) {
    const size_t more = names.size() - 1;
    add(concat(field, " (layer '", names[0], "'", more ? concat(" and ", more, " more") : "", ")"));
  }
  if (!list.empty()) {
    plan.note("settings of the net that have no effect: " + list, Severity::warning);
  }
}

}  // namespace crema
