// Reads and writes binary protocol buffers: .caffemodel, .solverstate, .binaryproto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace crema {

/// What one file, that is one protocol buffer, can hold.
inline constexpr int64_t kMostMessageBytes = INT32_MAX;

/// Reads the file into `out`, which loses what it held. Fields that `out` does not know are kept
/// and written again. Whatever the bytes are, the result is a message or an Error: when there is no
/// such file, when it is a folder, empty, a text, of another kind (HDF5, an image), another
/// message, cut off, damaged, or larger than the 2 GiB that a protocol buffer can have.
void read_binary_proto(const std::string& path, google::protobuf::Message& out);

/// Writes the message so that `path` names either its old content or the whole new one at any
/// moment, through a crash of the program or of the machine: beside it as <path>.tmp.<process id>,
/// synced, renamed, the folder synced. On failure the file beside is removed, `path` keeps its old
/// content, and the Error names it and the system's reason. One writer a path and process at a
/// time.
void write_binary_proto_atomically(const std::string& path,
                                   const google::protobuf::Message& message);

/// The process that was writing the file beside some other that has this name; 0 where it is none.
int writer_of_unfinished(std::string_view name);

}  // namespace crema
