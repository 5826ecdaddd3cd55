#include "model/set_value.hpp"

#include <google/protobuf/text_format.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "crema/error.hpp"
#include "model/field_advice.hpp"
#include "model/field_path.hpp"
#include "model/text_format.hpp"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

/// Without the quotes around it.
std::string unquoted(const std::string& value) {
  const bool is_quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
                         value.back() == value.front();
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

[[noreturn]] void refuse(const FieldDescriptor& field, const std::string& value, const char* what) {
  throw Error(field.name(), " cannot be '", value, "'; give ", what);
}

template <class T>
T number_of(const FieldDescriptor& field, const std::string& value, const char* what) {
  const auto number = parse_number<T>(value);
  if (!number) refuse(field, value, what);
  return *number;
}

bool truth_of(const FieldDescriptor& field, const std::string& value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  refuse(field, value, "true or false");
}

const google::protobuf::EnumValueDescriptor* word_of(const FieldDescriptor& field,
                                                     const std::string& value) {
  const auto& type = *field.enum_type();
  const auto* found = type.FindValueByName(unquoted(value));
  if (found == nullptr) {
    const auto number = parse_number<int>(value);
    if (number) found = type.FindValueByNumber(*number);
  }
  if (found == nullptr)
    throw Error(field.name(), " cannot be '", value, "'",
                advice_for_enum(*field.containing_type(), field, value));
  return found;
}

/// Sets a single value, or adds one to a list, or with `index` replaces that one of it.
void put(Message& message, const FieldDescriptor& field, const std::string& value,
         std::optional<int> index) {
  const auto& reflection = *message.GetReflection();
  const auto write = [&](auto single, auto add, auto replace, auto content) {
    if (!field.is_repeated()) {
      (reflection.*single)(&message, &field, content);
    } else if (index) {
      (reflection.*replace)(&message, &field, *index, content);
    } else {
      (reflection.*add)(&message, &field, content);
    }
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return write(&R::SetInt32, &R::AddInt32, &R::SetRepeatedInt32,
                   number_of<int32_t>(field, value, "a whole number of 32 bits"));
    case FieldDescriptor::CPPTYPE_INT64:
      return write(&R::SetInt64, &R::AddInt64, &R::SetRepeatedInt64,
                   number_of<int64_t>(field, value, "a whole number"));
    case FieldDescriptor::CPPTYPE_UINT32:
      return write(&R::SetUInt32, &R::AddUInt32, &R::SetRepeatedUInt32,
                   number_of<uint32_t>(field, value, "a whole number of 32 bits from 0 on"));
    case FieldDescriptor::CPPTYPE_UINT64:
      return write(&R::SetUInt64, &R::AddUInt64, &R::SetRepeatedUInt64,
                   number_of<uint64_t>(field, value, "a whole number from 0 on"));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return write(&R::SetFloat, &R::AddFloat, &R::SetRepeatedFloat,
                   number_of<float>(field, value, "a number"));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return write(&R::SetDouble, &R::AddDouble, &R::SetRepeatedDouble,
                   number_of<double>(field, value, "a number"));
    case FieldDescriptor::CPPTYPE_BOOL:
      return write(&R::SetBool, &R::AddBool, &R::SetRepeatedBool, truth_of(field, value));
    case FieldDescriptor::CPPTYPE_ENUM:
      return write(&R::SetEnum, &R::AddEnum, &R::SetRepeatedEnum, word_of(field, value));
    case FieldDescriptor::CPPTYPE_STRING:
      return write(&R::SetString, &R::AddString, &R::SetRepeatedString, unquoted(value));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

/// The text of a message in braces or without.
void put_message(Message& out, const std::string& value) {
  const size_t begin = value.find_first_not_of(' '), end = value.find_last_not_of(' ');
  std::string inside = begin == std::string::npos ? "" : value.substr(begin, end - begin + 1);
  if (inside.starts_with('{') && inside.ends_with('}'))
    inside = inside.substr(1, inside.size() - 2);
  out.Clear();
  if (inside.find_first_not_of(' ') != std::string::npos) parse_text_proto(inside, value, out);
}

std::string text_of_value(const Message& message, const FieldDescriptor& field, int index) {
  std::string value;
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseUtf8StringEscaping(true);
  printer.PrintFieldValueToString(message, &field, index, &value);
  return field.message_type() != nullptr ? "{ " + value + "}" : value;
}

/// What stands there now.
std::string present(const Message& message, const FieldDescriptor& field,
                    std::optional<int> index) {
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    if (reflection.HasField(message, &field)) return text_of_value(message, field, -1);
    return field.has_default_value() ? "the default " + text_of_value(message, field, -1) : "none";
  }
  const int size = reflection.FieldSize(message, &field);
  if (index) return *index < size ? text_of_value(message, field, *index) : "none";
  std::vector<std::string> all;
  for (int i = 0; i < size; ++i) all.push_back(text_of_value(message, field, i));
  return all.empty() ? "none" : joined(all, ",");
}

/// Error for an index of a single value, and for one with which the list would have a gap.
void check_index(const Message& message, const FieldDescriptor& field, std::optional<int> index) {
  if (!index) return;
  if (!field.is_repeated())
    throw Error(field.name(), " is one value; write it without [", *index, "]");
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (*index > size)
    throw Error(field.name(), "[", *index, "] leaves a gap: the list has ", size,
                size == 1 ? " value" : " values", ", and [", size, "] is the next one");
}

/// The message of the field, which is made if it is not there.
Message& inner(Message& message, const FieldDescriptor& field, std::optional<int> index) {
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated()) return *reflection.MutableMessage(&message, &field);
  if (!index)
    throw Error(field.name(), " is a list; write which one of it, as ", field.name(), "[0]");
  if (*index == reflection.FieldSize(message, &field))
    return *reflection.AddMessage(&message, &field);
  return *reflection.MutableRepeatedMessage(&message, &field, *index);
}

}  // namespace

std::string first_step(std::string_view path) { return take_step(path).name; }

std::string set_value(Message& root, std::string_view path, const std::string& value) {
  std::vector<const Message*> around;
  Message* message = &root;
  while (true) {
    around.push_back(message);
    const FieldStep step = take_step(path);
    const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(step.name);
    if (field == nullptr)
      throw Error(message_name(*message->GetDescriptor()), " has no field '", step.name, "'",
                  advice_for_unknown(around, step.name, value));
    check_index(*message, *field, step.index);
    if (!path.empty()) {
      if (field->message_type() == nullptr)
        throw Error(field->name(), " has no fields, so it has no '", path, "'");
      message = &inner(*message, *field, step.index);
      continue;
    }
    std::string before = present(*message, *field, step.index);
    if (field->message_type() != nullptr) {
      put_message(inner(*message, *field, step.index), value);
    } else if (!field->is_repeated()) {
      put(*message, *field, value, {});
    } else if (step.index) {
      const bool is_next = *step.index == message->GetReflection()->FieldSize(*message, field);
      put(*message, *field, value, is_next ? std::nullopt : step.index);
    } else {
      message->GetReflection()->ClearField(message, field);
      for (const std::string& one : split_list(value)) put(*message, *field, one, {});
    }
    return before;
  }
}

}  // namespace crema
