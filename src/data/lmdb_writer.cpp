#include "data/lmdb_writer.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "crema/error.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr size_t kFirstMapSize = size_t{16} << 20;
constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr const char* kLockName = "writer.lock";

bool belongs_to_database(const fs::path& name) {
  return name == "data.mdb" || name == "lock.mdb" || name == kLockName;
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // some network file systems refuse; the data themselves are synced
  ::close(fd);
}

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path, bool overwrite)
    : path_(fs::path(path).lexically_normal()), overwrite_(overwrite), map_size_(kFirstMapSize) {
  require(!path.empty(), "the database to write has no path; name its folder");
  if (!path_.has_filename()) path_ = path_.parent_path();  // "train_lmdb/"
  folder_ = path_;
  folder_ += ".tmp";
  check_target();
  try {
    claim_folder();
    open_environment();
  } catch (...) {
    if (env_) mdb_env_close(env_);
    if (lock_ >= 0) ::close(lock_);
    throw;
  }
}

LmdbWriter::~LmdbWriter() {
  if (!env_) return;
  mdb_env_close(env_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  ::close(lock_);
}

void LmdbWriter::fail(int code, const char* action, const fs::path& path) const {
  throw Error("writing LMDB '", path_.string(), "': ", action, " '", path.string(),
              "': ", std::generic_category().message(code));
}

void LmdbWriter::check(int code, const char* action) const {
  if (code == MDB_SUCCESS) return;
  throw Error("writing LMDB '", path_.string(), "': ", action, ": ", mdb_strerror(code),
              code == ENOSPC ? "; make room, or write to another disk" : "");
}

void LmdbWriter::check_target() const {
  std::error_code code;
  const fs::path parent = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  require(fs::is_directory(parent, code), "cannot write LMDB '", path_.string(), "': the folder '",
          parent.string(), "' does not exist; make it first");
  if (!fs::exists(fs::symlink_status(path_, code))) return;
  require(overwrite_, "'", path_.string(),
          "' exists already; remove it, choose another name, or ask to overwrite it (--overwrite)");
  bool ours = fs::is_directory(path_, code);
  if (ours) {
    for (const auto& entry : fs::directory_iterator(path_)) {
      ours = ours && belongs_to_database(entry.path().filename());
    }
  }
  require(ours, "'", path_.string(),
          "' is not an LMDB database, and is not overwritten; "
          "remove it yourself, or choose another name");
}

void LmdbWriter::claim_folder() {
  const fs::path file = folder_ / kLockName;
  // Another writer may rename its folder away between our opening its lock and locking it.
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST) {
      fail(errno, "cannot make the folder", folder_);
    }
    lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0 && errno == ENOENT) continue;
    if (lock_ < 0) fail(errno, "cannot make the file", file);
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error("'", path_.string(), "' is being written by another process (it holds '",
                  file.string(), "'); wait for it, or choose another name");
    }
    struct stat held, named;
    if (::fstat(lock_, &held) == 0 && ::stat(file.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
      return;
    }
    ::close(lock_);
    lock_ = -1;
  }
  throw Error("'", path_.string(), "' is being written by another process; choose another name");
}

void LmdbWriter::open_environment() {
  std::error_code code;
  for (const char* leftover : {"data.mdb", "lock.mdb"}) fs::remove(folder_ / leftover, code);
  check(mdb_env_create(&env_), "cannot begin");
  check(mdb_env_set_mapsize(env_, map_size_), "cannot begin");
  // Nobody else opens this folder, and it counts for nothing until it is synced and renamed.
  check(mdb_env_open(env_, folder_.c_str(), MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD, 0666),
        "cannot begin");
}

std::string_view LmdbWriter::key_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin, entry.key_size);
}

std::string_view LmdbWriter::value_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin + entry.key_size, entry.value_size);
}

void LmdbWriter::put(std::string_view key, std::string_view value) {
  require(!key.empty() && key.size() <= max_key_size(), "writing LMDB '", path_.string(),
          "': key '", key, "' has ", key.size(), " bytes; 1 to ", max_key_size(), " are possible");
  entries_.push_back({bytes_.size(), key.size(), value.size()});
  bytes_ += key;
  bytes_ += value;
  ++count_;
  if (entries_.size() >= kBatchRecords || bytes_.size() >= kBatchBytes) write_batch();
}

void LmdbWriter::write_batch() {
  if (entries_.empty()) return;
  std::string last_key = last_key_;
  int code = try_batch(last_key);
  while (code == MDB_MAP_FULL) {
    map_size_ *= 2;
    check(mdb_env_set_mapsize(env_, map_size_), "cannot grow it");
    last_key = last_key_;
    code = try_batch(last_key);
  }
  check(code, "cannot write");
  last_key_ = std::move(last_key);
  entries_.clear();
  bytes_.clear();
}

int LmdbWriter::try_batch(std::string& last_key) {
  MDB_txn* transaction = nullptr;
  int code = mdb_txn_begin(env_, nullptr, 0, &transaction);
  if (code != MDB_SUCCESS) return code;
  MDB_dbi table = 0;
  code = mdb_dbi_open(transaction, nullptr, 0, &table);
  for (size_t i = 0; i < entries_.size() && code == MDB_SUCCESS; ++i) {
    const std::string_view key = key_of(entries_[i]);
    const std::string_view bytes = value_of(entries_[i]);
    MDB_val name{key.size(), const_cast<char*>(key.data())};
    MDB_val value{bytes.size(), const_cast<char*>(bytes.data())};
    // Appending fills pages to the brim.
    const bool ascends = key > last_key;
    code = mdb_put(transaction, table, &name, &value, ascends ? MDB_APPEND : MDB_NOOVERWRITE);
    if (code == MDB_KEYEXIST) {
      mdb_txn_abort(transaction);
      throw Error("writing LMDB '", path_.string(), "': key '", key,
                  "' comes twice; keys have to be unique");
    }
    if (ascends) last_key = key;
  }
  if (code != MDB_SUCCESS) {
    mdb_txn_abort(transaction);
    return code;
  }
  return mdb_txn_commit(transaction);
}

void LmdbWriter::finish() {
  write_batch();
  check(mdb_env_sync(env_, 1), "cannot sync it");
  std::error_code ignored;
  sync_folder(folder_);
  check_target();
  move_into_place();
  mdb_env_close(env_);
  env_ = nullptr;
  // Only now, under the final name: whoever finds the folder without its lock could take it over.
  fs::remove(path_ / kLockName, ignored);
  ::close(lock_);
  lock_ = -1;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void LmdbWriter::move_into_place() {
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) {
    if (::rename(folder_.c_str(), path_.c_str()) != 0) fail(errno, "cannot rename it to", path_);
    return;
  }
  // The old database and the new one change places in one step where the system can do that.
  fs::path old = folder_;
  if (::renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
    old = path_;
    old += ".old";
    fs::remove_all(old, ignored);
    if (::rename(path_.c_str(), old.c_str()) != 0) fail(errno, "cannot rename it to", old);
    if (::rename(folder_.c_str(), path_.c_str()) != 0) fail(errno, "cannot rename it to", path_);
  }
  fs::remove_all(old, ignored);
}

}  // namespace crema
