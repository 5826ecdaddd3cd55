#include "monitor/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "model/whole_file.hpp"

namespace crema {
namespace {

/// The size of the file without what is behind its last end of a line; -1 if it cannot be read.
off_t whole_lines(int descriptor, off_t size) {
  std::array<char, 4096> buffer;
  while (size > 0) {
    const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
    const auto wanted = static_cast<size_t>(size - begin);
    if (::pread(descriptor, buffer.data(), wanted, begin) != static_cast<ssize_t>(wanted))
      return -1;
    const size_t last = std::string_view(buffer.data(), wanted).rfind('\n');
    if (last != std::string_view::npos) return begin + static_cast<off_t>(last) + 1;
    size = begin;
  }
  return 0;
}

/// Whether the path leads to the open file, or to nothing any more.
bool names(const std::string& path, int descriptor) {
  struct stat named {
  }, open{};
  return ::stat(path.c_str(), &named) != 0 || ::fstat(descriptor, &open) != 0 ||
         (named.st_ino == open.st_ino && named.st_dev == open.st_dev);
}

}  // namespace

AppendFile::~AppendFile() { close(); }

void AppendFile::close() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

int AppendFile::open(const std::string& path, bool lines) noexcept {
  close();
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) return errno;
  struct stat is {};
  if (!lines || ::fstat(descriptor_, &is) != 0 || !S_ISREG(is.st_mode)) return 0;
  const off_t whole = whole_lines(descriptor_, is.st_size);
  if (whole < 0 || (whole < is.st_size && ::ftruncate(descriptor_, whole) != 0)) {
    const int reason = errno;
    close();
    return reason;
  }
  return 0;
}

bool AppendFile::lock() noexcept {
  // A device, such as /dev/full, is no file of one run.
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode)) return true;
  // A file system without locks has none that another process could hold.
  for (int tries = 0;; ++tries) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
    // is_locked() of another process, such as the board, holds the file for a moment.
    if (tries == 20) return false;
    ::usleep(5000);
  }
  // Whoever went on with the run in the meantime has put another file in its place.
  return names(path_, descriptor_);
}

void AppendFile::replace(const std::string& path, std::string_view content) {
  WholeFile file(path);
  file.append(content);
  file.sync();
  const int descriptor = file.finish_open();
  close();
  path_ = path;
  descriptor_ = descriptor;
  ::fcntl(descriptor_, F_SETFL, O_APPEND);
}

int AppendFile::append(std::string_view bytes) noexcept {
  if (descriptor_ < 0) return EBADF;
  struct stat before {};
  const bool is_file = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  const int reason = write_all(descriptor_, bytes);
  if (reason != 0 && is_file && ::ftruncate(descriptor_, before.st_size) != 0) {
    // The rest of a piece stays; readers pass over it.
  }
  return reason;
}

bool is_locked(const std::string& path) noexcept {
  // Another file may take the name between the two calls, and leave this one free.
  for (int tries = 0; tries < 10; ++tries) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    const bool is_locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const bool is_named = names(path, descriptor);
    ::close(descriptor);
    if (is_locked || is_named) return is_locked;
  }
  return true;
}

}  // namespace crema
