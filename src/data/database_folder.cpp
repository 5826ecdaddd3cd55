#include "data/database_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "crema/error.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMark = "writer.lock";
// The mark goes last: as long as it is there, what is left can be told from a user's files.
constexpr const char* kFiles[] = {"data.mdb", "lock.mdb", kMark};
// Folders of other writers come and go while we look.
constexpr int kAttempts = 10;

std::string reason(int code) { return std::generic_category().message(code); }

/// Names in a folder; none for a link, and for anything else that cannot be listed.
std::optional<std::vector<std::string>> names_in(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(fs::symlink_status(folder, code))) return std::nullopt;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    names.push_back(at->path().filename().string());
  }
  if (code) return std::nullopt;
  return names;
}

bool belongs_to_database(const std::string& name) {
  for (const char* file : kFiles) {
    if (name == file) return true;
  }
  return false;
}

/// Error unless `folder` is gone, empty, or what a killed writer left, which the mark tells from a
/// database of somebody's own.
void check_leftover(const fs::path& folder, const fs::path& database) {
  const auto names = names_in(folder);
  std::error_code code;
  if (!names && !fs::exists(fs::symlink_status(folder, code))) return;
  std::string found = "it is no folder that can be read";
  bool ours = false;
  if (names) {
    ours = names->empty();
    found = concat("it has no ", kMark);
    for (const std::string& name : *names) ours = ours || name == kMark;
    for (const std::string& name : *names) {
      if (belongs_to_database(name)) continue;
      ours = false;
      found = concat("it holds '", name, "'");
    }
  }
  require(ours, "'", database.string(), "' cannot be written: it would be made in '",
          folder.string(), "', which exists and was not left by an earlier run (", found,
          "); rename or remove that, or choose another name");
}

[[noreturn]] void fail_replacing(const fs::path& target, int code, const std::string& more) {
  throw Error("cannot replace '", target.string(), "': ", reason(code), more);
}

}  // namespace

bool holds_only_database(const fs::path& folder) {
  const auto names = names_in(folder);
  if (!names) return false;
  for (const std::string& name : *names) {
    if (!belongs_to_database(name)) return false;
  }
  return true;
}

void remove_database(const fs::path& folder) noexcept {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  for (const char* file : kFiles) ::unlinkat(fd, file, 0);
  ::close(fd);
  ::rmdir(folder.c_str());
}

void remove_mark(const fs::path& folder) noexcept { ::unlink((folder / kMark).c_str()); }

void WriterLock::release() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void WriterLock::claim(const fs::path& folder, const fs::path& database) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::mkdir(folder.c_str(), 0777) != 0) {
      require(errno == EEXIST, "cannot make the folder '", folder.string(), "': ", reason(errno));
      check_leftover(folder, database);
    }
    if (lock(folder, database, Busy::fail)) return;
  }
  throw Error("'", database.string(), "' is being written by another process; choose another name");
}

void WriterLock::mark(const fs::path& database) {
  require(lock(database, database, Busy::wait), "cannot lock '", database.string(),
          "': it was removed or replaced meanwhile");
}

/// False when the folder is not there, or not any more.
bool WriterLock::lock(const fs::path& folder, const fs::path& database, Busy busy) {
  const fs::path file = folder / kMark;
  // Whoever held the lock may have removed the file, or renamed the folder, before we got it.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ < 0 && errno == ENOENT) return false;
    require(file_ >= 0, "cannot make the file '", file.string(), "': ", reason(errno));
    const int how = LOCK_EX | (busy == Busy::fail ? LOCK_NB : 0);
    int status = ::flock(file_, how);
    while (status != 0 && errno == EINTR) status = ::flock(file_, how);
    if (status != 0 && errno == EWOULDBLOCK) {
      release();
      throw Error("'", database.string(), "' is being written by another process (it holds '",
                  file.string(), "'); wait for it, or choose another name");
    }
    struct stat ours, named;
    if (::fstat(file_, &ours) == 0 && ::stat(file.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      return true;
    }
    release();
  }
  return false;
}

fs::path replace_folder(const fs::path& fresh, const fs::path& target) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return fresh;
  }
  const bool unknown = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
  if (!unknown) fail_replacing(target, errno, "");

  // A new folder, which nobody else has anything in: renaming takes the place of an empty one.
  std::string old = target.string() + ".old.XXXXXX";
  if (::mkdtemp(old.data()) == nullptr) fail_replacing(target, errno, "");
  if (::rename(target.c_str(), old.c_str()) != 0) {
    const int code = errno;
    ::rmdir(old.c_str());
    fail_replacing(target, code, "");
  }
  if (::rename(fresh.c_str(), target.c_str()) != 0) {
    const int code = errno;
    const bool back = ::rename(old.c_str(), target.c_str()) == 0;
    fail_replacing(target, code, back ? "" : "; the old database is now '" + old + "'");
  }
  return old;
}

}  // namespace crema
