// Reads and writes binary protocol buffers: .caffemodel, .solverstate, .binaryproto.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace google::protobuf {
class Descriptor;
class Message;
namespace io {
class ZeroCopyOutputStream;
}
}  // namespace google::protobuf

namespace crema {

class OpenFile;
class WholeFile;

/// What one file, that is one protocol buffer, can hold.
inline constexpr int64_t kMostMessageBytes = INT32_MAX;

// A file of a message with a field `checksum` (weights and states) carries the XXH3 of its
// contents, 64 bits, as its last field: over all bytes before that. The same field with the file's
// size begins the file, so that a file that was cut off where a field ends does not pass for one
// without checksum. Published readers skip both, and files without them are read too.

/// What a file says of its own contents.
struct Written {
  bool has_size = false, has_checksum = false;
  uint64_t size = 0, checksum = 0;
  int64_t checked = 0;  // bytes that the checksum is of
};
/// Of a file of `size` bytes with such a message.
Written written_by(const OpenFile& file, int64_t size, const google::protobuf::Descriptor& wanted);

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

/// Writes the message to a WholeFile (whole_file.hpp): `path` names either its old content or the
/// whole new one at any moment. On failure it keeps its old content, and the Error names it and the
/// system's reason.
void write_binary_proto_atomically(const std::string& path,
                                   const google::protobuf::Message& message);
/// Writes the message to the file beside. The caller calls finish().
void write_binary_proto(WholeFile& file, const google::protobuf::Message& message);

/// Whether the file, one of such a message, carries a checksum.
bool has_checksum(const std::string& path, const google::protobuf::Descriptor& type);
/// The checksum that it carries, whatever its contents are; none without one.
std::optional<uint64_t> carried_checksum(const std::string& path,
                                         const google::protobuf::Descriptor& type);

}  // namespace crema
