#include "model/set_field.hpp"

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>

namespace crema {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool differs_from_default(const Message& message, const FieldDescriptor* field) {
  if (field->is_repeated() || field->message_type() != nullptr) return true;
  const auto text = [&](const Message& of) {
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(of, field, -1, &value);
    return value;
  };
  return text(message) != text(*std::unique_ptr<Message>(message.New()));
}

}  // namespace crema
