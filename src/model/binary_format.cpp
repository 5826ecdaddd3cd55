#include "model/binary_format.hpp"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::FileInputStream;
using google::protobuf::io::FileOutputStream;

constexpr int kMostBytes = static_cast<int>(kMostMessageBytes);

/// Ends the name of a file that is being written, before the process. A machine cannot tell whether
/// a process of another one that shares the folder is alive.
std::string unfinished_mark() {
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, sizeof host - 1);
  return concat(".tmp.", host, ".");
}

// A file descriptor that is closed with it.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags, mode_t mode = 0)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string_view usual_extension(const Descriptor& message) {
  if (message.name() == "NetParameter") return ".caffemodel";
  return message.name() == "SolverState" ? ".solverstate" : ".binaryproto";
}

std::string_view advice(FileKind kind, const Descriptor& wanted) {
  if (kind == FileKind::text && wanted.name() == "NetParameter") {
    return "; if it is a prototxt, give it where the net is asked for, and the .caffemodel here";
  }
  if (kind == FileKind::compressed) return "; unpack it first";
  return "";
}

// Why bytes that do not parse are damaged: the first field whose length goes beyond the end, or "".
std::string describe_damage(const OpenFile& file, int64_t size) {
  using google::protobuf::internal::WireFormatLite;
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return "";
  FileInputStream stream(file.get());
  CodedInputStream input(&stream);
  input.SetTotalBytesLimit(kMostBytes);
  while (true) {
    const int begin = input.CurrentPosition();
    const uint32_t tag = input.ReadTag();
    if (tag == 0) return "";
    uint32_t length;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!input.ReadVarint32(&length)) return "it is cut off";
      const int64_t left = size - input.CurrentPosition();
      if (length > left) {
        return concat("it is cut off: at byte ", begin, " a field of ", length,
                      " bytes begins, and ", left, " are left");
      }
      if (!input.Skip(static_cast<int>(length))) return "it is cut off";
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return input.CurrentPosition() >= size ? "it is cut off"
                                             : concat("it is damaged at byte ", begin);
    }
  }
}

// Whether a message was read from bytes of another type: all it has is what it does not know.
bool is_stranger(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields.empty() && message.GetReflection()->GetUnknownFields(message).field_count() > 0;
}

void require_kind(const std::string& path, const Descriptor& wanted) {
  const FileKind kind = kind_of_file(path);
  if (kind == FileKind::binary) return;
  throw Error("'", path, "' is not a ", describe(wanted), " but ", describe(kind),
              advice(kind, wanted));
}

// Throws when the file holds another message than the wanted one.
void require_message(const std::string& path, const Descriptor& wanted) {
  const Descriptor* other = guess_message(path);
  if (other != nullptr && other != &wanted) {
    throw Error("'", path, "' is not a ", describe(wanted), " but a ", describe(*other));
  }
}

}  // namespace

void read_binary_proto(const std::string& path, Message& out) {
  const Descriptor& wanted = *out.GetDescriptor();
  require_file(path, describe(wanted), usual_extension(wanted));
  OpenFile file(path, O_RDONLY);
  if (!file.is_open()) {
    throw Error("cannot open ", describe(wanted), " '", path, "': ", std::strerror(errno));
  }
  require_kind(path, wanted);
  struct stat status {};
  ::fstat(file.get(), &status);
  if (status.st_size > kMostBytes)
    throw Error("cannot read '", path, "': it has ", status.st_size,
                " bytes, and a protocol buffer at most ", kMostBytes);

  FileInputStream stream(file.get());
  bool parsed;
  {
    CodedInputStream input(&stream);
    input.SetTotalBytesLimit(kMostBytes);
    parsed = out.ParsePartialFromCodedStream(&input) && input.ConsumedEntireMessage();
  }
  if (stream.GetErrno() != 0) {
    throw Error("cannot read '", path, "': ", std::strerror(stream.GetErrno()));
  }
  if (!parsed) {
    require_message(path, wanted);
    const std::string damage = describe_damage(file, status.st_size);
    throw Error("cannot read ", describe(wanted), " '", path,
                "': ", damage.empty() ? "it is damaged" : damage,
                "; copy or download it again, or take an earlier one");
  }
  if (is_stranger(out)) {
    require_message(path, wanted);
    throw Error("'", path, "' is not a ", describe(wanted), " but another kind of binary file");
  }
  if (!out.IsInitialized()) {
    throw Error("cannot read ", describe(wanted), " '", path, "': it lacks ",
                out.InitializationErrorString());
  }
}

bool remove_abandoned(const std::string& path) {
  const std::string mark = unfinished_mark();
  const size_t at = path.rfind(mark);
  if (at == std::string::npos || at + mark.size() == path.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(path.begin() + static_cast<ptrdiff_t>(at + mark.size()), path.end(), is_digit)) {
    return false;
  }
  const OpenFile file(path, O_RDWR | O_NOFOLLOW);
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
         ::unlink(path.c_str()) == 0;
}

std::string unfinished_path(const std::string& path) {
  return concat(path, unfinished_mark(), ::getpid());
}

void write_file_atomically(
    const std::string& path,
    const std::function<bool(google::protobuf::io::ZeroCopyOutputStream&)>& write) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string beside = unfinished_path(path);
  const auto fail = [&](int reason) {
    ::unlink(beside.c_str());
    throw Error(
        "cannot write '", path, "': ", std::strerror(reason),
        reason == ENOENT ? concat("; create the folder '", folder.string(), "' first") : "");
  };

  const OpenFile file(beside, O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (!file.is_open()) fail(errno);
  // Tells remove_abandoned() that a process is writing, until the rename or the end of the process.
  // Where files cannot be locked, that cannot lock them either, and leaves them.
  ::flock(file.get(), LOCK_EX | LOCK_NB);
  {
    FileOutputStream stream(file.get());
    if (!write(stream) || !stream.Flush()) {
      fail(stream.GetErrno() != 0 ? stream.GetErrno() : EIO);
    }
  }
  if (::fsync(file.get()) != 0) fail(errno);
  if (::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
  sync_folder(folder);
}

void write_binary_proto_atomically(const std::string& path, const Message& message) {
  const size_t size = message.ByteSizeLong();
  if (size > static_cast<size_t>(kMostBytes))
    throw Error("cannot write '", path, "': it would have ", size,
                " bytes, and a protocol buffer at most ", kMostBytes);
  write_file_atomically(path, [&](google::protobuf::io::ZeroCopyOutputStream& stream) {
    return message.SerializePartialToZeroCopyStream(&stream);
  });
}

}  // namespace crema
