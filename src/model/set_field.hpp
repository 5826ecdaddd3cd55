// Which settings of a message say something.
#pragma once

#include <google/protobuf/message.h>

namespace crema {

/// Whether a field that is set, as those of Reflection::ListFields are, asks for anything else than
/// it would if it were not. A single value that is the default does not. A message does, even an
/// empty one: there are messages whose presence turns something on.
bool differs_from_default(const google::protobuf::Message& message,
                          const google::protobuf::FieldDescriptor* field);

}  // namespace crema
