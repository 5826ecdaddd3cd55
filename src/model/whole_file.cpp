#include "model/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "model/binary_format.hpp"

namespace crema {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

WholeFile::WholeFile(const std::string& path) : path_(path), beside_(unfinished_path(path)) {
  descriptor_ = ::open(beside_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  keep_mode(path_, descriptor_);
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(beside_.c_str());
}

void WholeFile::fail(int reason) const {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  throw Error("cannot write '", path_, "': ", std::strerror(reason),
              full               ? "; make room, or write to another disk"
              : reason == ENOENT ? "; make its folder first"
                                 : "");
}

void WholeFile::append(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= kPieceBytes) flush();
}

void WholeFile::append_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("cannot open '", path, "': ", std::strerror(errno));
  std::string block(kPieceBytes, '\0');
  do {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    append(std::string_view(block).substr(0, static_cast<size_t>(in.gcount())));
  } while (in);
  if (!in.eof()) throw Error("cannot read '", path, "': ", std::strerror(errno));
  flush();
}

void WholeFile::flush() {
  write(pending_);
  pending_.clear();
}

void WholeFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void WholeFile::replace_head(std::string_view bytes) {
  flush();
  if (::lseek(descriptor_, 0, SEEK_SET) < 0) fail(errno);
  write(bytes);
  if (::lseek(descriptor_, 0, SEEK_END) < 0) fail(errno);
}

void WholeFile::sync() {
  flush();
  if (::fsync(descriptor_) != 0) fail(errno);
}

void WholeFile::finish() {
  sync();
  if (::rename(beside_.c_str(), path_.c_str()) != 0) fail(errno);
  ::close(std::exchange(descriptor_, -1));
  sync_folder(std::filesystem::path(path_).parent_path());
}

}  // namespace crema
