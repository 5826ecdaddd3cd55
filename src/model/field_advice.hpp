// What to write instead of a field or a value that a message does not have.
//
// Every advice is "" or goes behind a message, with the punctuation that it needs.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace crema {

/// A message's name for people: without its package.
std::string message_name(const google::protobuf::Descriptor& type);

/// The value of a text or enum field as a word; "" where the message has no such field.
std::string text_of(const google::protobuf::Message& message, const std::string& field);

/// For a field `name: value` that the innermost of the messages `around` (outermost first, as far
/// as they were read) does not have.
std::string advice_for_unknown(const std::vector<const google::protobuf::Message*>& around,
                               const std::string& name, const std::string& value);

/// The extension of the message that a plug-in declares and whose name is nearest, whole or without
/// its package; "" if none is near.
std::string nearest_extension(const google::protobuf::Descriptor& type, const std::string& name);

/// For a value, as it stands in the text, that the field's enum does not have: the values it has.
std::string advice_for_enum(const google::protobuf::Descriptor& message,
                            const google::protobuf::FieldDescriptor& field,
                            const std::string& value);

/// For a text that stands without quotes.
std::string advice_for_unquoted(const google::protobuf::Descriptor& message,
                                const std::string& field, const std::string& value);

}  // namespace crema
