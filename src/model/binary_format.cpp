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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "model/checksum.hpp"
#include "model/file_kind.hpp"
#include "model/open_file.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::FileInputStream;

constexpr int kMostBytes = static_cast<int>(kMostMessageBytes);

// --- The field with the checksum ----------------------------------------
//
// The file begins and ends with this field: first with the file's size, so that a file that was cut
// off behind a field is known for one, and last with the checksum of all bytes before it.

constexpr int kBlockBytes = 1 << 20;

/// The message's own checksum; null for messages without one.
const FieldDescriptor* checksum_field(const Descriptor& message) {
  const FieldDescriptor* field = message.FindFieldByName("checksum");
  return field != nullptr && field->type() == FieldDescriptor::TYPE_FIXED64 ? field : nullptr;
}

/// The bytes of such a field.
std::string checksum_bytes(const FieldDescriptor& field, uint64_t value) {
  using google::protobuf::internal::WireFormatLite;
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  WireFormatLite::WriteFixed64(field.number(), value, &out);
  out.Trim();
  return bytes;
}

constexpr size_t kValueBytes = sizeof(uint64_t);

/// Whether `bytes` are such a field, and then its value.
bool read_checksum(const FieldDescriptor& field, std::string_view bytes, uint64_t& value) {
  const std::string zero = checksum_bytes(field, 0);
  const size_t tag = zero.size() - kValueBytes;
  if (bytes.size() != zero.size() || bytes.substr(0, tag) != zero.substr(0, tag)) return false;
  value = 0;
  for (size_t i = 0; i < kValueBytes; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[tag + i])} << (8 * i);
  }
  return true;
}

/// Gives the bytes of a file to the parser, and those before `end` to a checksum.
class CheckedInput : public google::protobuf::io::CopyingInputStream {
 public:
  CheckedInput(const OpenFile& file, int64_t end) : file_(file), end_(end) {}

  int Read(void* buffer, int size) override {
    const ssize_t got = read_whole(file_.get(), buffer, static_cast<size_t>(size));
    if (got < 0) {
      error_ = errno;
      return -1;
    }
    if (at_ < end_) checksum_.add(buffer, static_cast<size_t>(std::min<int64_t>(got, end_ - at_)));
    at_ += got;
    return static_cast<int>(got);
  }

  int error() const { return error_; }
  uint64_t checksum() const { return checksum_.value(); }

  static ssize_t read_whole(int descriptor, void* buffer, size_t size) {
    ssize_t got;
    do {
      got = ::read(descriptor, buffer, size);
    } while (got < 0 && errno == EINTR);
    return got;
  }

 private:
  const OpenFile& file_;
  const int64_t end_;
  int64_t at_ = 0;
  int error_ = 0;
  Checksum checksum_;
};

/// Writes to a file, and keeps the checksum of what it wrote.
class CheckedOutput : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit CheckedOutput(WholeFile& file) : file_(file) {}

  bool Write(const void* buffer, int size) override {
    return write({static_cast<const char*>(buffer), static_cast<size_t>(size)});
  }
  bool write(std::string_view bytes) {
    checksum_.add(bytes.data(), bytes.size());
    error_ = file_.write(bytes);
    return error_ == 0;
  }

  int error() const { return error_; }
  uint64_t checksum() const { return checksum_.value(); }

 private:
  WholeFile& file_;
  int error_ = 0;
  Checksum checksum_;
};

}  // namespace

Written written_by(const OpenFile& file, int64_t size, const Descriptor& wanted) {
  Written written;
  const FieldDescriptor* field = checksum_field(wanted);
  if (field == nullptr) return written;
  std::string bytes = checksum_bytes(*field, 0);
  const auto length = static_cast<int64_t>(bytes.size());
  const auto read_at = [&](int64_t at) {
    return ::pread(file.get(), bytes.data(), bytes.size(), at) == length;
  };
  if (size >= length) {
    written.has_size = read_at(0) && read_checksum(*field, bytes, written.size);
    written.has_checksum = read_at(size - length) && read_checksum(*field, bytes, written.checksum);
    written.checked = size - length;
  }
  return written;
}

namespace {

// --- What a file is, and what is wrong with it ----------------------------------------

std::string_view usual_extension(const Descriptor& message) {
  if (message.name() == "NetParameter") return ".caffemodel";
  return message.name() == "SolverState" ? ".solverstate" : ".binaryproto";
}

std::string advice(FileKind kind, const Descriptor& wanted) {
  if (kind == FileKind::text && wanted.name() == "NetParameter") {
    return "; if it is a prototxt, give it where the net is asked for, and the .caffemodel here";
  }
  if (kind == FileKind::hdf5 && wanted.name() == "NetParameter")
    return "; weights in HDF5 have no old form, and commands that take weights read them as they "
           "are";
  if (kind == FileKind::compressed) return "; unpack it first";
  if (is_foreign(kind)) {
    if (wanted.name() == "NetParameter") return std::string(way_to_convert());
    return text("; name a ", usual_extension(wanted), " of Crema or Caffe");
  }
  return way_out_of(kind);
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
        return text("it is cut off: at byte ", begin, " a field of ", length, " bytes begins, and ",
                    left, " are left");
      }
      if (!input.Skip(static_cast<int>(length))) return "it is cut off";
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return input.CurrentPosition() >= size ? "it is cut off"
                                             : text("it is damaged at byte ", begin);
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

void read_binary_proto(const std::string& path, Message& out, Verify verify) {
  const Descriptor& wanted = *out.GetDescriptor();
  require_file(path, describe(wanted), usual_extension(wanted));
  OpenFile file(path, O_RDONLY);
  if (!file.is_open()) {
    throw Error("cannot open ", describe(wanted), " '", path, "': ", std::strerror(errno))
        .about(path);
  }
  require_kind(path, wanted);
  struct stat status {};
  ::fstat(file.get(), &status);
  if (status.st_size > kMostBytes)
    throw Error("cannot read '", path, "': it has ", status.st_size,
                " bytes, and a protocol buffer at most ", kMostBytes);

  const Written written = written_by(file, status.st_size, wanted);
  const bool checks = verify == Verify::checksum;
  if (checks && written.has_size && written.size != static_cast<uint64_t>(status.st_size))
    throw_changed(path, text("it has ", status.st_size, " bytes, and had ", written.size));

  CheckedInput bytes(file, written.has_checksum ? written.checked : 0);
  bool parsed;
  {
    // A small file, as a mean or a state often is, needs no block of 1 MiB.
    const auto block = std::clamp<int64_t>(status.st_size, 4096, kBlockBytes);
    google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes, static_cast<int>(block));
    CodedInputStream input(&stream);
    input.SetTotalBytesLimit(kMostBytes);
    parsed = out.ParsePartialFromCodedStream(&input) && input.ConsumedEntireMessage();
  }
  if (bytes.error() != 0) {
    throw Error("cannot read '", path, "': ", std::strerror(bytes.error())).about(path);
  }
  if (checks && parsed) {
    if (written.has_size && !written.has_checksum)
      throw_changed(path, "its checksum, the last field, is gone");
    if (written.has_checksum && bytes.checksum() != written.checksum)
      throw_changed(path, "they do not fit its checksum");
  }
  if (!parsed) {
    require_message(path, wanted);
    const std::string damage = describe_damage(file, status.st_size);
    throw Error("cannot read ", describe(wanted), " '", path,
                "': ", damage.empty() ? "it is damaged" : damage,
                "; copy or download it again, or take an earlier one");
  }
  if (const FieldDescriptor* field = checksum_field(wanted)) {
    out.GetReflection()->ClearField(&out, field);  // it is the file's, not the message's
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

bool has_checksum(const std::string& path, const Descriptor& type) {
  return carried_checksum(path, type).has_value();
}

std::optional<uint64_t> carried_checksum(const std::string& path, const Descriptor& type) {
  const OpenFile file(path, O_RDONLY);
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
  const Written written = written_by(file, status.st_size, type);
  return written.has_checksum ? std::optional(written.checksum) : std::nullopt;
}

namespace {

/// `write` returns false if it cannot write.
void write_checked(WholeFile& file, const std::function<bool(CheckedOutput&)>& write) {
  CheckedOutput out(file);
  if (!write(out)) file.check(out.error() != 0 ? out.error() : EIO);
}

}  // namespace

void write_file_atomically(
    const std::string& path,
    const std::function<bool(google::protobuf::io::ZeroCopyOutputStream&)>& write) {
  WholeFile file(path);
  write_checked(file, [&](CheckedOutput& out) {
    google::protobuf::io::CopyingOutputStreamAdaptor stream(&out, kBlockBytes);
    return write(stream) && stream.Flush();
  });
  file.finish();
}

void write_binary_proto_atomically(const std::string& path, const Message& message) {
  WholeFile file(path);
  write_binary_proto(file, message);
  file.finish();
}

void write_binary_proto(WholeFile& file, const Message& message) {
  const FieldDescriptor* field = checksum_field(*message.GetDescriptor());
  const size_t around = field != nullptr ? checksum_bytes(*field, 0).size() : 0;
  const size_t size = message.ByteSizeLong() + 2 * around;
  if (size > static_cast<size_t>(kMostBytes))
    throw Error("cannot write '", file.path(), "': it would have ", size,
                " bytes, and a protocol buffer at most ", kMostBytes);
  write_checked(file, [&](CheckedOutput& out) {
    if (field != nullptr && !out.write(checksum_bytes(*field, size))) return false;
    {
      google::protobuf::io::CopyingOutputStreamAdaptor stream(&out, kBlockBytes);
      if (!message.SerializePartialToZeroCopyStream(&stream) || !stream.Flush()) return false;
    }
    return field == nullptr || out.write(checksum_bytes(*field, out.checksum()));
  });
}

}  // namespace crema
