#include "layer_support/unused_settings.hpp"

#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

#include "model/set_field.hpp"
#include "proto/layer.pb.h"

namespace crema {

void warn_without_effect(const LayerInit& init, const google::protobuf::Message& settings,
                         std::initializer_list<std::string_view> fields, std::string_view why) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  settings.GetReflection()->ListFields(settings, &set);
  std::string names;
  int count = 0;
  for (const auto* field : set) {
    if (std::ranges::find(fields, field->name()) == fields.end() ||
        !differs_from_default(settings, field))
      continue;
    names += text(count++ > 0 ? ", " : "", field->name());
  }
  if (count == 0) return;
  init.context.log(Severity::warning, text("layer '", init.param.name(), "': ", names,
                                           count > 1 ? " have" : " has", " no effect ", why));
}

}  // namespace crema
