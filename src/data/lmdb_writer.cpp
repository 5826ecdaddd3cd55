#include "data/lmdb_writer.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr size_t kFirstMapSize = size_t{16} << 20;
constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// The way out of an error of the file system. LMDB makes EIO of a write that ends early.
const char* hint_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; make room, or write to another disk";
    case EIO:
      return "; the disk may be full or failing: make room, or write to another disk";
    case EFBIG:
      return "; files may not be so large here: raise the limit (ulimit -f), or write to another "
             "disk";
    default:
      return "";
  }
}

constexpr const char* kFiles[] = {"data.mdb", "lock.mdb"};

/// Whether this is a folder, and no link to one, with a database's files in it and nothing else.
bool holds_only_database(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(fs::symlink_status(folder, code))) return false;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    const fs::path name = at->path().filename();
    if (name != kFiles[0] && name != kFiles[1]) return false;
  }
  return !code && fs::exists(folder / kFiles[0], code);
}

/// Removes a database's files, then the folder when nothing else is in it.
void remove_database(const fs::path& folder) noexcept {
  for (const char* file : kFiles) ::unlink((folder / file).c_str());
  ::rmdir(folder.c_str());
}

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path, bool overwrite)
    : path_(fs::path(path).lexically_normal()), overwrite_(overwrite), map_size_(kFirstMapSize) {
  if (path.empty()) throw Error("the database to write has no path; name its folder");
  if (!path_.has_filename()) path_ = path_.parent_path();  // "train_lmdb/"
  std::error_code code;
  if (fs::is_symlink(path_, code)) {
    const fs::path named = path_;
    path_ = fs::canonical(named, code);
    if (code)
      throw Error("cannot write LMDB '", named.string(), "': it is a link to nothing (",
                  code.message(), "); remove it, or choose another name");
  }
  check_target();
  std::string work = path_.string() + ".tmp.XXXXXX";
  if (::mkdtemp(work.data()) == nullptr) check(errno, "cannot make a folder beside it");
  work_ = work;
  fresh_ = work_ / "new";
  old_ = work_ / "old";
  try {
    open_environment();
  } catch (...) {
    remove_work();
    throw;
  }
}

LmdbWriter::~LmdbWriter() { remove_work(); }

void LmdbWriter::remove_work() noexcept {
  if (env_) mdb_env_close(std::exchange(env_, nullptr));
  remove_database(fresh_);
  ::rmdir(work_.c_str());
}

void LmdbWriter::check(int code, const char* action) const {
  if (code == MDB_SUCCESS) return;
  throw Error("writing LMDB '", path_.string(), "': ", action, ": ", mdb_strerror(code),
              hint_for(code));
}

void LmdbWriter::check_target() const {
  std::error_code code;
  const fs::path parent = parent_of(path_);
  if (!fs::is_directory(parent, code))
    throw Error("cannot write LMDB '", path_.string(), "': the folder '", parent.string(),
                "' does not exist; make it first");
  if (!fs::exists(fs::symlink_status(path_, code))) return;
  if (!overwrite_)
    throw Error(
        "'", path_.string(),
        "' exists already; remove it, choose another name, or ask to overwrite it (--overwrite)");
  if (!holds_only_database(path_))
    throw Error("'", path_.string(),
                "' is not an LMDB database, and is not overwritten; "
                "remove it yourself, or choose another name");
  if (::access(path_.c_str(), W_OK) != 0)
    throw Error("'", path_.string(),
                "' cannot be overwritten: ", std::generic_category().message(errno),
                "; choose another name");
}

void LmdbWriter::open_environment() {
  std::error_code code;
  fs::create_directory(fresh_, code);
  check(code.value(), "cannot make its folder");
  check(mdb_env_create(&env_), "cannot begin");
  check(mdb_env_set_mapsize(env_, map_size_), "cannot begin");
  // Nobody else opens this folder, and it counts for nothing until it is synced and renamed.
  check(mdb_env_open(env_, fresh_.c_str(), MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD, 0666),
        "cannot begin");
}

std::string_view LmdbWriter::key_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin, entry.key_size);
}

std::string_view LmdbWriter::value_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin + entry.key_size, entry.value_size);
}

void LmdbWriter::put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > max_key_size())
    throw Error("writing LMDB '", path_.string(), "': key '", key, "' has ", key.size(),
                " bytes; 1 to ", max_key_size(), " are possible");
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
  mdb_env_close(std::exchange(env_, nullptr));
  sync_folder(fresh_);
  check_target();
  move_into_place();
  remove_database(old_);
  remove_work();
  sync_folder(parent_of(path_));
}

void LmdbWriter::move_into_place() {
  std::error_code code, back;
  const bool replaces = fs::exists(fs::symlink_status(path_, back));
  if (replaces) fs::rename(path_, old_, code);
  if (code)
    throw Error("cannot replace '", path_.string(), "': cannot move it away: ", code.message());
  fs::rename(fresh_, path_, code);
  if (!code) return;
  back.clear();
  if (replaces) fs::rename(old_, path_, back);
  throw Error("writing LMDB '", path_.string(), "': cannot rename '", fresh_.string(),
              "' to it: ", code.message(),
              back ? "; the database that was there is now '" + old_.string() + "'" : "");
}

}  // namespace crema
