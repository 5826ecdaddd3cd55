// Writes an LMDB database. A database that exists under its name is complete at any time.
//
//   LmdbWriter writer("train_lmdb");
//   writer.put("00000000", bytes);
//   writer.finish();
//
// The records are written to a new folder train_lmdb.tmp.XXXXXX beside the database. finish() syncs
// it and renames it. If there is a database that is to be overwritten, it is moved into that folder
// first and removed last: a writer that is killed leaves the folder, with the new database as new/
// and possibly the old one as old/. Only files of databases are removed.
#pragma once

#include <lmdb.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

class LmdbWriter {
 public:
  /// Error when `path` exists and `overwrite` is off, or when it is not an LMDB database. A link
  /// stands for the database that it leads to.
  explicit LmdbWriter(const std::string& path, bool overwrite = false);
  /// Without finish(): removes what was written.
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  /// Adds a record. Keys may come in any order, ascending being fastest and smallest; they are
  /// unique and have 1 to max_key_size() bytes. Records reach the file in batches, so an error may
  /// be about an earlier one.
  void put(std::string_view key, std::string_view value);
  /// Makes the database appear under its name. Error when the name was taken since the writer
  /// began, or when it cannot be renamed; a database that was to be overwritten is under its name
  /// then. No put afterwards.
  void finish();

  int64_t count() const { return count_; }
  static constexpr size_t max_key_size() { return 511; }

 private:
  struct Entry {
    size_t key_begin, key_size, value_size;
  };
  std::string_view key_of(const Entry& entry) const;
  std::string_view value_of(const Entry& entry) const;

  void check_target() const;
  void open_environment();
  void remove_work() noexcept;
  void write_batch();
  int try_batch(std::string& last_key);
  void move_into_place();
  void check(int code, const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path work_;         // a folder of this writer's own
  std::filesystem::path fresh_, old_;  // in it: the new database, and the one that it replaces
  bool overwrite_;
  MDB_env* env_ = nullptr;
  size_t map_size_;
  // The batch: keys and values one after the other, since a full map makes it be written again.
  std::string bytes_;
  std::vector<Entry> entries_;
  std::string last_key_;  // greatest one written
  int64_t count_ = 0;
};

}  // namespace crema
