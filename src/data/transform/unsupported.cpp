#include "data/transform/unsupported.hpp"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <vector>

#include "crema/error.hpp"
#include "model/set_field.hpp"

namespace crema {

using google::protobuf::FieldDescriptor;

void reject_unsupported(const google::protobuf::Message& message,
                        std::initializer_list<int> supported, std::string_view where) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (std::find(supported.begin(), supported.end(), field->number()) != supported.end()) continue;
    if (!differs_from_default(message, field)) continue;
    throw Error(where, " { ", field->name(),
                " } is not implemented by this layer; remove it, and prepare the data so when the "
                "database is written");
  }
}

void reject_old_transform(const google::protobuf::Message& message, std::string_view where,
                          std::initializer_list<const char*> fields) {
  for (const char* name : fields) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && message.GetReflection()->HasField(message, field))
      throw Error(where, " { ", name, " } is an old form; write transform_param { ", name, " }");
  }
}

}  // namespace crema
