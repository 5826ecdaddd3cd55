// One open LMDB environment a database and process: LMDB forbids a second one, since closing either
// would drop the locks of both.
#pragma once

#include <lmdb.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_source.hpp"

namespace crema {

/// The keys of every kStride-th record: enough to reach any record in a few steps, at a small
/// part of the memory that all keys would take.
class LmdbKeyIndex {
 public:
  static constexpr int64_t kStride = 16;

  void add(std::string_view key) {
    text_ += key;
    ends_.push_back(text_.size());
  }
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// Key of record `i * kStride`.
  std::string_view key(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    const size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::string_view(text_).substr(begin, ends_[at] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

class LmdbEnvironment {
 public:
  /// The environment of this folder, opened for reading. If the process has it open already, that
  /// one is shared; its locking is that of the first call. It is closed when the last shared_ptr is
  /// destroyed. Error if the open environment was found to be damaged.
  static std::shared_ptr<LmdbEnvironment> open(const std::string& folder, LockMode lock,
                                               const Logger& logger);
  ~LmdbEnvironment();
  LmdbEnvironment(const LmdbEnvironment&) = delete;
  LmdbEnvironment& operator=(const LmdbEnvironment&) = delete;

  const std::string& folder() const { return folder_; }
  MDB_env* get() const { return env_; }
  MDB_dbi table() const { return table_; }
  /// Records at the time of opening.
  int64_t count() const { return count_; }
  bool locked() const { return locked_; }
  /// Built at the first call by one pass over the keys, and shared from then on.
  const LmdbKeyIndex& index();

  /// Throws unless `code` is MDB_SUCCESS; says what failed, and what can be done.
  void check(int code, const char* action) const;
  /// Throws once an assertion of LMDB has failed: what that left locked or half done in the
  /// environment is not known, so no further transaction may begin.
  void check_whole() const;

 private:
  LmdbEnvironment(std::string folder, LockMode lock, const Logger& logger);
  static void on_assertion(MDB_env* env, const char* text);
  int try_open(bool locked);
  void read_header();

  std::string folder_;
  MDB_env* env_ = nullptr;
  MDB_dbi table_ = 0;
  int64_t count_ = 0;
  bool locked_ = false;
  std::atomic<bool> broken_ = false;
  std::once_flag index_made_;
  LmdbKeyIndex index_;
};

/// A read transaction with a cursor: a frozen view of the database.
class LmdbCursor {
 public:
  explicit LmdbCursor(std::shared_ptr<LmdbEnvironment> environment);
  ~LmdbCursor();
  LmdbCursor(const LmdbCursor&) = delete;
  LmdbCursor& operator=(const LmdbCursor&) = delete;

  /// Moves; false when there is no such record.
  bool first(Record& record) { return move(MDB_FIRST, record); }
  bool next(Record& record) { return move(MDB_NEXT, record); }
  bool current(Record& record) { return move(MDB_GET_CURRENT, record); }
  bool find(std::string_view key, Record& record);

 private:
  bool move(MDB_cursor_op operation, Record& record);

  std::shared_ptr<LmdbEnvironment> environment_;
  MDB_txn* transaction_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
};

}  // namespace crema
