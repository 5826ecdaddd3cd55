#include <fcntl.h>
#include <leveldb/db.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "crema/error.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/leveldb/read_only_env.hpp"
#include "data/databases/leveldb_database.hpp"
#include "data/databases/open_once.hpp"
#include "data/records/datum.hpp"
#include "data/records/keyed_reader.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

/// Tables in memory that the log becomes; a larger one makes more of them.
constexpr size_t kTableBytes = size_t{64} << 20;
constexpr uint64_t kLargeDatabase = uint64_t{1} << 30;

std::string quoted(const std::string& folder) { return "LevelDB '" + folder + "'"; }

/// Error for a file of the database that is no file of LevelDB, but stands for one.
void refuse_stand_ins(const std::string& folder) {
  std::error_code code;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    refuse_stand_in(at->path().string(), "file of a LevelDB");
  }
}

void check(const leveldb::Status& status, const std::string& folder, const std::string& action) {
  if (status.ok()) return;
  refuse_stand_ins(folder);
  const std::string text = status.ToString();
  // LevelDB's answer to reading beyond the end of a file.
  const bool is_cut = text.ends_with(std::strerror(EINVAL));
  throw Error(quoted(folder), ": ", action, ": ", text,
              status.IsCorruption() || status.IsNotFound() || is_cut
                  ? "; the database is damaged: copy or convert it again"
                  : "");
}

/// A shared lock on the database's file LOCK, on which LevelDB takes an exclusive one.
class SharedLock {
 public:
  SharedLock(const std::string& folder, const Logger& logger) {
    const std::string file = folder + "/LOCK";
    file_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
      if (errno != ENOENT) tell(folder, logger);  // a copy needs no LOCK
      return;
    }
    struct flock lock = {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(file_, F_SETLK, &lock) == 0) return;
    const int code = errno;
    if (code != EACCES && code != EAGAIN) {
      tell(folder, logger);
      return;
    }
    lock.l_type = F_RDLCK;
    const bool known = ::fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    ::close(file_);
    throw Error(quoted(folder), " is open in another process",
                known ? text(" (", lock.l_pid, ")") : "",
                ", which may write to it; end that process, or set lock: NONE if it only reads");
  }
  ~SharedLock() {
    if (file_ >= 0) ::close(file_);
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  static void tell(const std::string& folder, const Logger& logger) {
    if (!logger) return;
    logger(Severity::info, text(quoted(folder), " is read without a lock (", std::strerror(errno),
                                "); nothing may write to it meanwhile. lock: NONE says so"));
  }

  int file_ = -1;
};

class LevelDb {
 public:
  LevelDb(std::string folder, LockMode lock, const Logger& logger);
  ~LevelDb() {
    env_.begin_to_close();
    db_.reset();
  }

  const std::string& folder() const { return folder_; }
  const CountedKeys& keys() const { return keys_; }
  std::unique_ptr<leveldb::Iterator> iterator() const {
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;
    return std::unique_ptr<leveldb::Iterator>(db_->NewIterator(options));
  }

 private:
  /// Bytes of all files of the database.
  uint64_t size() const;

  std::string folder_;
  std::unique_ptr<SharedLock> lock_;
  ReadOnlyEnv env_;
  std::unique_ptr<leveldb::DB> db_;
  CountedKeys keys_;
};

class LevelDbCursor final : public KeyCursor {
 public:
  explicit LevelDbCursor(std::shared_ptr<const LevelDb> database)
      : database_(std::move(database)), iterator_(database_->iterator()) {}

  bool first(Record& record) override {
    renew();
    iterator_->SeekToFirst();
    return current(record);
  }
  bool next(Record& record) override {
    iterator_->Next();
    return current(record);
  }
  bool current(Record& record) override {
    // Its iterators pass over blocks that they cannot read.
    if (!iterator_->status().ok())
      check(iterator_->status(), database_->folder(),
            last_.empty() ? "cannot read its first record"
                          : "cannot read on behind record '" + printable_key(last_) + "'");
    if (!iterator_->Valid()) return false;
    record.key = {iterator_->key().data(), iterator_->key().size()};
    record.value = {iterator_->value().data(), iterator_->value().size()};
    last_ = record.key;
    return true;
  }
  bool find(std::string_view key, Record& record) override {
    renew();
    iterator_->Seek({key.data(), key.size()});
    return current(record) && record.key == key;
  }

 private:
  /// An iterator that met an error never loses it.
  void renew() {
    if (!iterator_->status().ok()) iterator_ = database_->iterator();
  }

  std::shared_ptr<const LevelDb> database_;
  std::unique_ptr<leveldb::Iterator> iterator_;
  std::string last_;  // key read last, for messages
};

LevelDb::LevelDb(std::string folder, LockMode lock, const Logger& logger)
    : folder_(std::move(folder)) {
  if (lock == LockMode::automatic) lock_ = std::make_unique<SharedLock>(folder_, logger);
  leveldb::Options options;
  options.env = &env_;
  options.paranoid_checks = true;
  options.write_buffer_size = kTableBytes;
  leveldb::DB* opened = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, folder_, &opened);
  db_.reset(opened);
  try {
    check(status, folder_, "cannot open it");
    if (logger && size() > kLargeDatabase)
      logger(Severity::info,
             text(quoted(folder_), " of ", size() >> 20,
                  " MiB is read once to count its records, which LevelDB does not keep"));
    LevelDbCursor cursor(std::shared_ptr<LevelDb>(std::shared_ptr<void>(), this));
    keys_ = count_keys(cursor);
    if (keys_.count == 0)
      throw Error(quoted(folder_), " is empty: it holds no record; convert the data again");
  } catch (...) {
    env_.begin_to_close();
    throw;
  }
}

uint64_t LevelDb::size() const {
  uint64_t bytes = 0;
  std::error_code code;
  fs::directory_iterator at(folder_, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    std::error_code ignored;
    const auto size = at->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

OpenOnce<LevelDb>& open_databases() {
  static auto* const databases = new OpenOnce<LevelDb>;
  return *databases;
}

class LevelDbSource final : public RecordSource {
 public:
  explicit LevelDbSource(std::shared_ptr<LevelDb> database)
      : database_(std::move(database)), class_names_(read_class_file(database_->folder())) {}

  int64_t count() const override { return database_->keys().count; }
  std::string name() const override { return quoted(database_->folder()); }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::unique_ptr<RecordReader> reader(ReadOrder) override {
    return std::make_unique<KeyedReader>(name(), count(), &database_->keys().index,
                                         std::make_unique<LevelDbCursor>(database_));
  }

 private:
  std::shared_ptr<LevelDb> database_;
  std::vector<std::string> class_names_;
};

}  // namespace

std::shared_ptr<RecordSource> open_leveldb(const std::string& folder, LockMode lock,
                                           const Logger& logger) {
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0)
    throw Error(quoted(folder), ": cannot open it: ", std::strerror(errno)).about(folder);
  return std::make_shared<LevelDbSource>(open_databases().get({status.st_dev, status.st_ino}, [&] {
    return std::make_unique<LevelDb>(folder, lock, logger);
  }));
}

}  // namespace crema
