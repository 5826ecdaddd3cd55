#include "model/binary_format.hpp"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

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
constexpr std::string_view kUnfinished = ".tmp.";  // and the writing process

// A file descriptor that is closed with it.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags, mode_t mode = 0)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // False, with the reason in errno, when what was written could not be kept.
  bool close() { return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0; }

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
  require(status.st_size <= kMostBytes, "cannot read '", path, "': it has ", status.st_size,
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

int writer_of_unfinished(std::string_view name) {
  const size_t at = name.rfind(kUnfinished);
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = name.substr(at + kUnfinished.size());
  int writer = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), writer);
  return error == std::errc() && end == digits.end() ? writer : 0;
}

void write_binary_proto_atomically(const std::string& path, const Message& message) {
  const size_t size = message.ByteSizeLong();
  require(size <= static_cast<size_t>(kMostBytes), "cannot write '", path, "': it would have ",
          size, " bytes, and a protocol buffer at most ", kMostBytes);

  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const std::string beside = concat(path, kUnfinished, ::getpid());
  const auto fail = [&](int reason) {
    ::unlink(beside.c_str());
    throw Error("cannot write '", path, "': ", std::strerror(reason),
                reason == ENOENT ? concat("; create the folder '", folder, "' first") : "");
  };

  OpenFile file(beside, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!file.is_open()) fail(errno);
  {
    FileOutputStream stream(file.get());
    if (!message.SerializePartialToZeroCopyStream(&stream) || !stream.Flush()) {
      fail(stream.GetErrno() != 0 ? stream.GetErrno() : EIO);
    }
  }
  if (::fsync(file.get()) != 0 || !file.close()) fail(errno);
  if (::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
  // Until the folder is synced, a crash of the machine may bring the old file back. Some file
  // systems cannot sync a folder, and say so with EINVAL.
  const OpenFile entry(folder, O_RDONLY | O_DIRECTORY);
  if (!entry.is_open() || (::fsync(entry.get()) != 0 && errno != EINVAL)) fail(errno);
}

}  // namespace crema
