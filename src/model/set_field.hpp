// Which settings of a message say something.
#pragma once

#include <google/protobuf/message.h>

namespace crema {

/// Whether a field that is set (such as one of Reflection::ListFields) has another meaning than the
/// unset field. A single value that equals the default has not. A message always has, even if it is
/// empty, because the presence of some messages turns something on.
bool differs_from_default(const google::protobuf::Message& message,
                          const google::protobuf::FieldDescriptor* field);

}  // namespace crema
