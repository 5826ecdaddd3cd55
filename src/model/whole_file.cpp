#include "model/whole_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/path_advice.hpp"
#include "core/sync_folder.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Ends the name of a file that is being written, before the process. A machine cannot tell whether
/// a process of another one that shares the folder is alive.
std::string unfinished_mark() {
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, sizeof host - 1);
  return text(".tmp.", host, ".");
}

/// What to do about an errno of writing `path`: "; ...", or "".
std::string advice_for(int reason, const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string where = folder.empty() ? "the working directory" : text("'", folder, "'");
  switch (reason) {
    case ENOENT: {
      std::error_code ignored;
      if (path.empty()) return "; give the file a name";
      if (const std::string advice = path_advice(path); !advice.empty()) return advice;
      const bool is_there = folder.empty() || std::filesystem::is_directory(folder, ignored);
      return is_there ? text("; files cannot be made in ", where, ", so write to another folder")
                      : text("; create the folder ", where, " first");
    }
    case EISDIR:
      return "; it is a folder: name a file";
    case ENOSPC:
      return text("; free space on the disk of ", where, ", or write to another one");
    case EDQUOT:
      return text("; your quota on the disk of ", where,
                  " is used up: remove files, or write to another disk");
    case EFBIG:
      return text("; ", where,
                  " takes no file of that size: raise the limit (ulimit -f), or write to another "
                  "disk");
    case EROFS:
    case EACCES:
      return text("; get the right to write in ", where, ", or write to another folder");
    default:
      return "";
  }
}

/// Where the symbolic links that `path` may be lead, whether or not anything is there; `path`
/// itself where they go round in circles.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system follows them
  std::filesystem::path target = path;
  std::error_code none;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(target, none);
    if (none) return target.string();
    target = target.parent_path() / next;  // `next` alone where it is absolute
  }
  return path;
}

}  // namespace

std::string unfinished_path(const std::string& path) {
  return text(path, unfinished_mark(), ::getpid());
}

bool remove_abandoned(const std::string& path) {
  const std::string mark = unfinished_mark();
  const size_t at = path.rfind(mark);
  if (at == std::string::npos || at + mark.size() == path.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(path.begin() + static_cast<ptrdiff_t>(at + mark.size()), path.end(), is_digit)) {
    return false;
  }
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  // A link cannot be locked, and nothing is lost with it.
  if (descriptor < 0) return errno == ELOOP && ::unlink(path.c_str()) == 0;
  const bool removed = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
  ::close(descriptor);
  return removed;
}

void remove_abandoned_of(const std::string& path) {
  const std::filesystem::path target = behind_links(path);
  const std::filesystem::path folder = target.parent_path();
  const std::string name = target.filename().string() + unfinished_mark();
  std::error_code ignored;  // an unreadable folder, or another process removed the file first
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, ignored), end;
       entry != end; entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(name))
      remove_abandoned(entry->path().string());
  }
}

int write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      return written == 0 ? EIO : errno;
    }
  }
  return 0;
}

void check_output_file(const std::string& path, const char* what) {
  namespace fs = std::filesystem;
  if (path.empty()) throw Error(what, " has no name; name the file to write");
  std::error_code failed;
  if (fs::is_directory(path, failed))
    throw Error("cannot write '", path, "': it is a folder; name a file");
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failed))
    throw Error("cannot write '", path, "': there is no folder '", folder.string(), "'",
                path_advice(path, "make it first"))
        .about(folder.string());
  const WholeFile probe(path);  // an Error where it cannot be made; nothing of it stays
}

WholeFile::WholeFile(const std::string& path)
    : path_(path), target_(behind_links(path)), beside_(unfinished_path(target_)) {
  struct stat old {};
  if (::stat(path_.c_str(), &old) == 0) {
    mode_ = old.st_mode & 07777;
    if (!S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))
      throw Error("cannot write '", path_, "': it is a device or a pipe; name a file");
  } else if (errno == ELOOP) {
    check(errno);
  } else {
    check_new_path(path_);
  }
  descriptor_ = ::open(beside_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) check(errno);
  // Where files cannot be locked, remove_abandoned() cannot lock them either, and leaves them.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw Error("cannot write '", path_,
                "': this process is writing it already; name another file. Two layers with one "
                "file: give each a file_name of its own, or include { phase } in the layer");
  }
  // What opens the file by its name has to be able to write it. Where this fails, as on a file
  // system without modes, the file has the usual one.
  if (mode_) {
    [[maybe_unused]] const int failed = ::fchmod(descriptor_, *mode_ | S_IWUSR);
  }
  // Of an earlier process with the same number.
  if (::ftruncate(descriptor_, 0) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    check(reason);
  }
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  ::unlink(beside_.c_str());
  ::close(descriptor_);
}

void WholeFile::check(int reason) const {
  if (reason == 0) return;
  throw Error("cannot write '", path_, "'", target_ == path_ ? "" : ", a link to '" + target_ + "'",
              ": ", std::strerror(reason), advice_for(reason, target_));
}

void WholeFile::append(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= kPieceBytes) flush();
}

void WholeFile::append_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("cannot open '", path, "': ", std::strerror(errno)).about(path);
  std::string block(kPieceBytes, '\0');
  do {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    append(std::string_view(block).substr(0, static_cast<size_t>(in.gcount())));
  } while (in);
  if (!in.eof()) throw Error("cannot read '", path, "': ", std::strerror(errno)).about(path);
  flush();
}

void WholeFile::flush() {
  check(write(pending_));
  pending_.clear();
}

void WholeFile::replace_head(std::string_view bytes) {
  flush();
  if (::lseek(descriptor_, 0, SEEK_SET) < 0) check(errno);
  check(write(bytes));
  if (::lseek(descriptor_, 0, SEEK_END) < 0) check(errno);
}

void WholeFile::set_mode() const noexcept {
  if (!mode_) return;
  [[maybe_unused]] const int failed = ::fchmod(descriptor_, *mode_);
}

void WholeFile::rename_beside() {
  if (::rename(beside_.c_str(), target_.c_str()) != 0) check(errno);
}

void WholeFile::sync() {
  flush();
  set_mode();
  if (::fsync(descriptor_) != 0) check(errno);
}

void WholeFile::finish() {
  sync();
  rename_beside();
  ::close(std::exchange(descriptor_, -1));
  sync_folder(std::filesystem::path(target_).parent_path());
}

void WholeFile::finish_unsynced() { ::close(finish_open()); }

int WholeFile::finish_open() {
  flush();
  set_mode();
  rename_beside();
  return std::exchange(descriptor_, -1);
}

}  // namespace crema
