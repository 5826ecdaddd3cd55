#include "model/partial_copy.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <vector>

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// Copies a field that is set, by how its values are read and written.
void copy_field(const Message& from, const FieldDescriptor* field, Message& to) {
  const Reflection& source = *from.GetReflection();
  const Reflection& target = *to.GetReflection();
  const int count = field->is_repeated() ? source.FieldSize(from, field) : 0;
  const auto copy = [&](auto get, auto get_at, auto set, auto add) {
    if (!field->is_repeated()) (target.*set)(&to, field, (source.*get)(from, field));
    for (int i = 0; i < count; ++i) (target.*add)(&to, field, (source.*get_at)(from, field, i));
  };
  using R = Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return copy(&R::GetInt32, &R::GetRepeatedInt32, &R::SetInt32, &R::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return copy(&R::GetInt64, &R::GetRepeatedInt64, &R::SetInt64, &R::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return copy(&R::GetUInt32, &R::GetRepeatedUInt32, &R::SetUInt32, &R::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return copy(&R::GetUInt64, &R::GetRepeatedUInt64, &R::SetUInt64, &R::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return copy(&R::GetDouble, &R::GetRepeatedDouble, &R::SetDouble, &R::AddDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return copy(&R::GetFloat, &R::GetRepeatedFloat, &R::SetFloat, &R::AddFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return copy(&R::GetBool, &R::GetRepeatedBool, &R::SetBool, &R::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return copy(&R::GetEnumValue, &R::GetRepeatedEnumValue, &R::SetEnumValue, &R::AddEnumValue);
    case FieldDescriptor::CPPTYPE_STRING:
      if (!field->is_repeated()) target.SetString(&to, field, source.GetString(from, field));
      for (int i = 0; i < count; ++i) {
        target.AddString(&to, field, source.GetRepeatedString(from, field, i));
      }
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (!field->is_repeated()) {
        target.MutableMessage(&to, field)->CopyFrom(source.GetMessage(from, field));
      }
      for (int i = 0; i < count; ++i) {
        target.AddMessage(&to, field)->CopyFrom(source.GetRepeatedMessage(from, field, i));
      }
      return;
  }
}

}  // namespace

void copy_without(const Message& from, std::initializer_list<int> fields, Message& to) {
  std::vector<const FieldDescriptor*> present;
  from.GetReflection()->ListFields(from, &present);
  for (const FieldDescriptor* field : present) {
    const bool left_out = std::find(fields.begin(), fields.end(), field->number()) != fields.end();
    if (!left_out) copy_field(from, field, to);
  }
  to.GetReflection()->MutableUnknownFields(&to)->MergeFrom(
      from.GetReflection()->GetUnknownFields(from));
}

}  // namespace crema
