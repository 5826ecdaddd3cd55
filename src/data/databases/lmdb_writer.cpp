#include "data/databases/lmdb_writer.hpp"

#include <utility>

#include "crema/error.hpp"
#include "data/databases/class_file.hpp"
#include "data/records/datum.hpp"

namespace crema {
namespace {

constexpr size_t kFirstMapSize = size_t{16} << 20;
constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path, bool overwrite)
    : folder_("LMDB", path, overwrite), map_size_(kFirstMapSize) {
  try {
    open_environment();
  } catch (...) {
    close();
    throw;
  }
}

LmdbWriter::~LmdbWriter() { close(); }

void LmdbWriter::close() noexcept {
  if (env_) mdb_env_close(std::exchange(env_, nullptr));
}

// LMDB makes EIO of a write that ends early.
void LmdbWriter::check(int code, const char* action) const {
  if (code == MDB_SUCCESS) return;
  throw Error("writing ", folder_.name(), ": ", action, ": ", mdb_strerror(code),
              hint_for_disk(code));
}

void LmdbWriter::open_environment() {
  check(mdb_env_create(&env_), "cannot begin");
  check(mdb_env_set_mapsize(env_, map_size_), "cannot begin");
  // Nobody else opens this folder, and it counts for nothing until it is synced and renamed.
  check(mdb_env_open(env_, folder_.fresh().c_str(), MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD, 0666),
        "cannot begin");
}

std::string_view LmdbWriter::key_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin, entry.key_size);
}

std::string_view LmdbWriter::value_of(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.key_begin + entry.key_size, entry.value_size);
}

void LmdbWriter::put(std::string_view key, std::string_view value) {
  check_key(key, folder_.name());
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
      throw KeyError("writing ", folder_.name(), ": key '", printable_key(key),
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

void LmdbWriter::sync() {
  if (!env_) return;
  write_batch();
  check(mdb_env_sync(env_, 1), "cannot sync it");
  close();
  write_class_file(folder_.fresh(), class_names());
}

void LmdbWriter::finish() {
  sync();
  folder_.finish();
}

}  // namespace crema
