// Writing text files.
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace crema {

/// The message as a prototxt, which read_text_proto() reads again.
std::string text_of_proto(const google::protobuf::Message& message);

/// Writes the text as write_binary_proto_atomically() writes a message: `path` names either its old
/// content or the whole new one.
void write_text_atomically(const std::string& path, std::string_view text);

}  // namespace crema
