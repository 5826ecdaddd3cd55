// Copies of messages without the fields that hold most of their bytes.
#pragma once

#include <initializer_list>

namespace google::protobuf {
class Message;
}

namespace crema {

/// Adds to `to`, a message of the same type, all that `from` has but for the fields with these
/// numbers. Extensions and unknown fields are copied too.
void copy_without(const google::protobuf::Message& from, std::initializer_list<int> fields,
                  google::protobuf::Message& to);

}  // namespace crema
