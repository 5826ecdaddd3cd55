// One open LMDB environment a database and process: LMDB forbids a second one, since closing either
// would drop the locks of both.
#pragma once

#include <lmdb.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "data/databases/open_database.hpp"
#include "data/databases/open_once.hpp"
#include "data/records/keyed_reader.hpp"

namespace crema {
class LmdbEnvironment {
 public:
  /// The environment of this folder, opened for reading. If the process has it open already, that
  /// one is shared; its locking is that of the first call. It is closed when the last shared_ptr
  /// is destroyed. `before` runs before the process opens it, and not if it is open already.
  /// Error if the open environment was found to be damaged.
  static std::shared_ptr<LmdbEnvironment> open(const std::string& folder, LockMode lock,
                                               const Logger& logger,
                                               const std::function<void()>& before = {});
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
  const KeyIndex& index();

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
  KeyIndex index_;
};

/// A read transaction with a cursor: a frozen view of the database.
class LmdbCursor final : public KeyCursor {
 public:
  explicit LmdbCursor(std::shared_ptr<LmdbEnvironment> environment);
  ~LmdbCursor() override;
  LmdbCursor(const LmdbCursor&) = delete;
  LmdbCursor& operator=(const LmdbCursor&) = delete;

  bool first(Record& record) override { return move(MDB_FIRST, record); }
  bool next(Record& record) override { return move(MDB_NEXT, record); }
  bool current(Record& record) override { return move(MDB_GET_CURRENT, record); }
  bool find(std::string_view key, Record& record) override;

 private:
  bool move(MDB_cursor_op operation, Record& record);

  std::shared_ptr<LmdbEnvironment> environment_;
  MDB_txn* transaction_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
};

}  // namespace crema
