#include "data/unsupported.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "crema/error.hpp"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string value_text(const Message& message, const FieldDescriptor* field) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

bool is_default(const Message& message, const FieldDescriptor* field) {
  if (field->is_repeated() || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return false;
  const std::unique_ptr<Message> untouched(message.New());
  return value_text(message, field) == value_text(*untouched, field);
}

}  // namespace

void reject_unsupported(const Message& message, std::initializer_list<int> supported,
                        std::string_view where) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (std::find(supported.begin(), supported.end(), field->number()) != supported.end()) continue;
    if (is_default(message, field)) continue;
    throw Error(where, " { ", field->name(),
                " } is not implemented by this layer; remove it, and prepare the data so when the "
                "database is written");
  }
}

}  // namespace crema
