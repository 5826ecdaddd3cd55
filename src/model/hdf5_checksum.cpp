#include "model/hdf5_checksum.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "crema/error.hpp"
#include "model/binary_format.hpp"
#include "model/checksum.hpp"
#include "model/open_file.hpp"

namespace crema {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
/// The attribute is made before all else, so it lies in the first bytes of the file.
constexpr size_t kSearchedBytes = size_t{1} << 16;
constexpr size_t kValueBytes = sizeof(uint64_t);

/// Little-endian, as the attribute lies in the file.
std::string bytes_of(uint64_t value) {
  std::string bytes;
  for (size_t i = 0; i < kValueBytes; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string mark_bytes() {
  const auto values = hdf5_checksum_values();
  return bytes_of(values[0]) + bytes_of(values[1]);
}

/// Reads up to `bytes.size()` bytes at an offset, and shortens `bytes` to what there is. False if
/// the file cannot be read.
bool read_at(int descriptor, size_t offset, std::string& bytes) {
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::pread(descriptor, bytes.data() + got, bytes.size() - got,
                                 static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return false;
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  bytes.resize(got);
  return true;
}

/// Where the checksum lies, or npos.
size_t find_place(int descriptor) {
  std::string head(kSearchedBytes, '\0');
  if (!read_at(descriptor, 0, head)) return std::string::npos;
  const std::string mark = mark_bytes();
  const size_t at = head.find(mark);
  if (at == std::string::npos || at + mark.size() + kValueBytes > head.size()) {
    return std::string::npos;
  }
  return at + mark.size();
}

/// Of the whole file, with zeros at `place`. Returns 0 or an errno.
int checksum_of(int descriptor, size_t place, uint64_t& value) {
  Checksum checksum;
  std::string block;
  for (size_t offset = 0;; offset += block.size()) {
    block.resize(kBlockBytes);
    if (!read_at(descriptor, offset, block)) return errno;
    if (block.empty()) break;
    // The place lies in the first block: kSearchedBytes are less.
    if (offset == 0) std::fill_n(block.begin() + static_cast<ptrdiff_t>(place), kValueBytes, '\0');
    checksum.add(block.data(), block.size());
  }
  value = checksum.value();
  return 0;
}

}  // namespace

std::array<uint64_t, 3> hdf5_checksum_values() {
  // Any numbers do that no other program writes.
  return {0x63D1A7E05B92C48F, 0x9E21F7B4AC0D3586, 0};
}

int seal_hdf5(int descriptor) {
  const size_t place = find_place(descriptor);
  if (place == std::string::npos) return EINVAL;
  uint64_t value = 0;
  if (const int failed = checksum_of(descriptor, place, value); failed != 0) return failed;
  const std::string bytes = bytes_of(value);
  const ssize_t done = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(place));
  if (done < 0) return errno;
  return done == static_cast<ssize_t>(bytes.size()) ? 0 : EIO;
}

Contents hdf5_contents(const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  if (!file.is_open()) return Contents::unknown;
  const size_t place = find_place(file.get());
  std::string written(kValueBytes, '\0');
  uint64_t value = 0;
  if (place == std::string::npos || !read_at(file.get(), place, written) ||
      checksum_of(file.get(), place, value) != 0) {
    return Contents::unknown;
  }
  return written == bytes_of(value) ? Contents::intact : Contents::changed;
}

std::optional<uint64_t> hdf5_carried_checksum(const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  if (!file.is_open()) return std::nullopt;
  const size_t place = find_place(file.get());
  std::string written(kValueBytes, '\0');
  if (place == std::string::npos || !read_at(file.get(), place, written) ||
      written.size() < kValueBytes)
    return std::nullopt;
  uint64_t value = 0;
  for (size_t i = 0; i < kValueBytes; ++i)
    value |= uint64_t{static_cast<unsigned char>(written[i])} << (8 * i);
  return value;
}

}  // namespace crema
