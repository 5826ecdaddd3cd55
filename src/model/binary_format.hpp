// Reads and writes binary protocol buffers: .caffemodel, .solverstate, .binaryproto.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace google::protobuf {
class Descriptor;
class Message;
namespace io {
class ZeroCopyOutputStream;
}
}  // namespace google::protobuf

namespace crema {

/// What one file, that is one protocol buffer, can hold.
inline constexpr int64_t kMostMessageBytes = INT32_MAX;

// A file of a message with a field `checksum` (weights and states) carries the XXH3 of its
// contents, 64 bits, as its last field: over all bytes before that. The same field with the file's
// size begins the file, so that a file that was cut off where a field ends does not pass for one
// without checksum. Published readers skip both, and files without them are read too.

/// What read_binary_proto() does about a file whose contents do not fit its checksum.
enum class Verify : uint8_t {
  checksum,  // an Error
  nothing,   // reads it nevertheless
};

/// Reads the file into `out`, which loses what it held. Fields that `out` does not know are kept
/// and written again. Whatever the bytes are, the result is a message or an Error: when there is no
/// such file, when it is a folder, empty, a text, of another kind (HDF5, an image), another
/// message, cut off, damaged, changed after it was written, or larger than the 2 GiB that a
/// protocol buffer can have. The field `checksum` of `out` is empty.
void read_binary_proto(const std::string& path, google::protobuf::Message& out,
                       Verify verify = Verify::checksum);

/// Writes a file as write_binary_proto_atomically() does, with what `write` puts into the stream.
/// It returns false if it cannot.
void write_file_atomically(
    const std::string& path,
    const std::function<bool(google::protobuf::io::ZeroCopyOutputStream&)>& write);

/// Writes the message so that `path` names either its old content or the whole new one at any
/// moment, through a crash of the program and, where the file system can sync folders, of the
/// machine: beside it as <path>.tmp.<host>.<process id>, synced, renamed, the folder synced. On
/// failure the file beside is removed, `path` keeps its old content, and the Error names it and the
/// system's reason. One writer a path and process at a time.
void write_binary_proto_atomically(const std::string& path,
                                   const google::protobuf::Message& message);

/// Whether the file, one of such a message, carries a checksum.
bool has_checksum(const std::string& path, const google::protobuf::Descriptor& type);

/// The end of a message that says why `path` could not be written, for an errno: what to do, such
/// as
/// "; create the folder 'x' first". May be "".
std::string advice_for_writing(int reason, const std::string& path);

/// Gives a file that is to replace `path` the mode of the old one, if there is one.
void keep_mode(const std::string& path, int descriptor);

/// <path>.tmp.<host>.<process id>: the name of a file that this process has not finished.
std::string unfinished_path(const std::string& path);

/// Removes a file that write_binary_proto_atomically was writing beside its path when it was
/// killed, on this machine. Leaves, and returns false for, every other file: one that is still
/// written, one of another machine that shares the folder, one with another name.
bool remove_abandoned(const std::string& path);

}  // namespace crema
