#include "model/stored_weights.hpp"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "core/dispatch.hpp"
#include "crema/error.hpp"
#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "model/checksum.hpp"
#include "model/file_kind.hpp"
#include "model/snapshot_file.hpp"

namespace crema {
namespace {

using google::protobuf::internal::WireFormatLite;

/// A field of BlobProto that no file has: the number of the piece that stands for its values. A
/// field that the message does not know goes along wherever a blob is copied to.
constexpr int kPieceField = 181'000'031;
constexpr int64_t kLeastBytes = 4096;  // of a list that stays in the file
constexpr size_t kBlockBytes = size_t{1} << 20;

/// Reads `size` bytes from `at` on. False where the file ends before.
bool read_at(int file, void* to, size_t size, int64_t at) {
  auto* next = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::pread(file, next, size, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void append_varint(std::string& to, uint64_t value) {
  std::array<uint8_t, 10> bytes{};
  const uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(end - bytes.data()));
}

constexpr uint32_t tag_of(int field, WireFormatLite::WireType type) {
  return static_cast<uint32_t>(field) << 3 | static_cast<uint32_t>(type);
}

/// Whether the first `bytes` of the file have this checksum.
bool has_checksum_of(int file, int64_t bytes, uint64_t wanted) {
  Checksum sum;
  std::string block(kBlockBytes, '\0');
  for (int64_t at = 0; at < bytes;) {
    const auto size =
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(kBlockBytes), bytes - at));
    if (!read_at(file, block.data(), size, at)) return false;
    sum.add(block.data(), size);
    at += static_cast<int64_t>(size);
  }
  return sum.value() == wanted;
}

}  // namespace

/// Copies messages of a file but for long lists of values, going by tags and lengths.
class StoredWeights::Scanner {
 public:
  Scanner(int file, std::vector<Piece>& pieces) : file_(file), pieces_(pieces) {}

  enum class Level : uint8_t { net, layer, old_layer, blob };

  /// Appends the message in [begin, end). False for bytes that are not such a message, or that have
  /// to be read as a whole.
  bool copy(int64_t begin, int64_t end, Level level, std::string& out) {
    bool has_values = false, has_piece = false;  // of a blob
    for (int64_t at = begin; at < end;) {
      const int64_t start = at;
      uint64_t tag = 0, length = 0;
      if (!varint(at, end, tag) || tag > UINT32_MAX) return false;
      const int field = static_cast<int>(tag >> 3);
      if (field == 0 || field == kPieceField) return false;
      const auto type = static_cast<WireFormatLite::WireType>(tag & 7);
      if (!past_value(at, end, type, length)) return false;
      const int64_t content = at - static_cast<int64_t>(length);
      const bool is_list = type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (level == Level::blob) {
        if (is_diff(field)) continue;
        const bool values = is_value(field);
        // Several lists are one, and of lists of several types one counts.
        if (values && has_piece) return false;
        if (field == BlobProto::kDataFieldNumber && is_list &&
            static_cast<int64_t>(length) >= kLeastBytes) {
          if (has_values || length % sizeof(float) != 0) return false;
          append_varint(out, tag_of(kPieceField, WireFormatLite::WIRETYPE_VARINT));
          append_varint(out, pieces_.size());
          pieces_.push_back({content, static_cast<int64_t>(length / sizeof(float))});
          has_piece = true;
          continue;
        }
        has_values = has_values || values;
      }
      const std::optional<Level> inside = is_list ? level_of(level, field) : std::nullopt;
      if (!inside) {
        if (!append(start, at, out)) return false;
        continue;
      }
      std::string message;
      if (!copy(content, at, *inside, message)) return false;
      append_varint(out, tag);
      append_varint(out, message.size());
      out += message;
    }
    return true;
  }

 private:
  static bool is_diff(int field) {
    return field == BlobProto::kDiffFieldNumber || field == BlobProto::kDoubleDiffFieldNumber ||
           field == BlobProto::kRawDiffFieldNumber;
  }
  static bool is_value(int field) {
    return field == BlobProto::kDataFieldNumber || field == BlobProto::kDoubleDataFieldNumber ||
           field == BlobProto::kRawDataFieldNumber;
  }
  static std::optional<Level> level_of(Level level, int field) {
    if (level == Level::net && field == NetParameter::kLayerFieldNumber) return Level::layer;
    if (level == Level::net && field == NetParameter::kLayersFieldNumber) return Level::old_layer;
    if (level == Level::layer && field == LayerParameter::kBlobsFieldNumber) return Level::blob;
    if (level == Level::old_layer && field == V1LayerParameter::kBlobsFieldNumber)
      return Level::blob;
    return std::nullopt;
  }

  /// Moves `at` behind the value of a field; `length` is that of what is counted in bytes.
  bool past_value(int64_t& at, int64_t end, WireFormatLite::WireType type, uint64_t& length) {
    switch (type) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t value = 0;
        return varint(at, end, value);
      }
      case WireFormatLite::WIRETYPE_FIXED64:
        at += 8;
        return at <= end;
      case WireFormatLite::WIRETYPE_FIXED32:
        at += 4;
        return at <= end;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        if (!varint(at, end, length) || length > static_cast<uint64_t>(end - at)) return false;
        at += static_cast<int64_t>(length);
        return true;
      default:
        return false;
    }
  }

  bool varint(int64_t& at, int64_t end, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7, ++at) {
      if (!look(at, at + 1)) return false;
      const auto byte = static_cast<uint8_t>(window_[static_cast<size_t>(at - window_at_)]);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        ++at;
        return true;
      }
    }
    return false;
  }

  bool append(int64_t begin, int64_t end, std::string& out) {
    const auto size = static_cast<size_t>(end - begin);
    if (size > window_.size()) {
      const size_t before = out.size();
      out.resize(before + size);
      return read_at(file_, out.data() + before, size, begin);
    }
    if (!look(begin, end)) return false;
    out.append(window_.data() + (begin - window_at_), size);
    return true;
  }

  /// Bytes [begin, end) are in the window, which is at least as long.
  bool look(int64_t begin, int64_t end) {
    if (begin >= window_at_ && end <= window_at_ + window_bytes_) return true;
    ssize_t got = 0;
    do {
      got = ::pread(file_, window_.data(), window_.size(), begin);
    } while (got < 0 && errno == EINTR);
    window_at_ = begin;
    window_bytes_ = std::max<ssize_t>(got, 0);
    return end <= window_at_ + window_bytes_;
  }

  int file_;
  std::vector<Piece>& pieces_;
  std::array<char, 4096> window_{};
  int64_t window_at_ = 0, window_bytes_ = 0;
};

std::unique_ptr<StoredWeights> StoredWeights::open(const std::string& path) {
  std::unique_ptr<StoredWeights> stored(new StoredWeights(path));
  if (!stored->file_.is_open() || !stored->read()) return nullptr;
  return stored;
}

bool StoredWeights::read() {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (status.st_size < kLeastBytes || status.st_size > kMostMessageBytes) return false;
  if (is_hdf5_file(path_) || kind_of_file(path_) != FileKind::binary) return false;
  const google::protobuf::Descriptor& type = *message_.GetDescriptor();
  const Written written = written_by(file_, status.st_size, type);
  if (written.has_size &&
      (written.size != static_cast<uint64_t>(status.st_size) || !written.has_checksum))
    return false;
  std::string rest;
  if (!Scanner(file_.get(), pieces_).copy(0, status.st_size, Scanner::Level::net, rest))
    return false;
  if (pieces_.empty() || !message_.ParseFromString(rest)) return false;
  message_.clear_checksum();
  if (!written.has_checksum) return true;
  const auto fits = [file = file_.get(), written] {
    return has_checksum_of(file, written.checked, written.checksum);
  };
  try {
    fits_ = std::async(std::launch::async, fits);
  } catch (const std::system_error&) {
    fits_ = std::async(std::launch::deferred, fits);  // no thread is to be had
  }
  return true;
}

const StoredWeights::Piece* StoredWeights::piece_of(const BlobProto& blob) const {
  const google::protobuf::UnknownFieldSet& unknown = blob.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() == kPieceField &&
        unknown.field(i).type() == google::protobuf::UnknownField::TYPE_VARINT &&
        unknown.field(i).varint() < pieces_.size())
      return &pieces_[unknown.field(i).varint()];
  }
  return nullptr;
}

int64_t StoredWeights::count(const BlobProto& blob) const {
  const Piece* const piece = piece_of(blob);
  return piece != nullptr ? piece->count : blob_count(blob);
}

void StoredWeights::load(const BlobProto& blob, Tensor& to) const {
  const Piece* const piece = piece_of(blob);
  if (piece == nullptr) return load_values(blob, to);
  const auto read = [&](float* values, int64_t first, int64_t count) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(float));
    if (!read_at(file_.get(), values, static_cast<size_t>(count * kSize),
                 piece->at + first * kSize))
      throw Error("cannot read '", path_, "': it became shorter while it was read").about(path_);
  };
  if (to.dtype() == DType::f32) {
    const auto values = to.changing<float>();
    return read(values.data(), 0, piece->count);
  }
  const auto values = to.changing<double>();
  std::vector<float> block(kBlockBytes / sizeof(float));
  for (int64_t first = 0; first < piece->count; first += static_cast<int64_t>(block.size())) {
    const int64_t count = std::min(static_cast<int64_t>(block.size()), piece->count - first);
    read(block.data(), first, count);
    std::copy_n(block.begin(), count, values.data() + first);
  }
}

void StoredWeights::check() {
  if (fits_.valid() && !fits_.get()) throw_changed(path_, "they do not fit its checksum");
}

}  // namespace crema
