#include <fcntl.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <system_error>
#include <utility>

#include "crema/error.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/database_folder.hpp"
#include "data/databases/leveldb_database.hpp"
#include "data/records/datum.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

/// Keeps LevelDB from writing a file LOG of its doings.
class NoLog final : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class LevelDbWriter final : public DatabaseWriter {
 public:
  LevelDbWriter(const std::string& path, bool overwrite) : folder_("LevelDB", path, overwrite) {
    open(true);
  }

  void put(std::string_view key, std::string_view value) override {
    check_key(key, folder_.name());
    const leveldb::Slice name(key.data(), key.size());
    if (key <= last_key_) {
      std::string old;
      const leveldb::Status found = db_->Get({}, name, &old);
      if (found.ok())
        throw KeyError("writing ", folder_.name(), ": key '", printable_key(key),
                       "' comes twice; keys have to be unique");
      if (!found.IsNotFound()) check(found, "cannot look for a key");
    } else {
      last_key_ = key;
    }
    check(db_->Put({}, name, {value.data(), value.size()}), "cannot write");
    ++count_;
  }

  void sync() override {
    if (!db_) return;
    db_.reset();
    // Opening turns the log into sorted tables, so that readers need not do it.
    open(false);
    db_.reset();
    write_class_file(folder_.fresh(), class_names());
    sync_files();
  }

  void finish() override {
    sync();
    folder_.finish();
  }

  int64_t count() const override { return count_; }

 private:
  void open(bool fresh) {
    leveldb::Options options;
    options.create_if_missing = fresh;
    options.error_if_exists = fresh;
    options.paranoid_checks = true;
    options.info_log = &no_log_;
    options.write_buffer_size = size_t{64} << 20;
    options.block_size = size_t{64} << 10;  // records are large
    leveldb::DB* opened = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, folder_.fresh().string(), &opened);
    db_.reset(opened);
    check(status, fresh ? "cannot begin" : "cannot finish it");
  }

  void check(const leveldb::Status& status, const char* action) const {
    if (status.ok()) return;
    const std::string text = status.ToString();
    const char* hint = "";
    for (const int code : {ENOSPC, EDQUOT, EIO, EFBIG}) {
      if (text.ends_with(std::generic_category().message(code))) hint = hint_for_disk(code);
    }
    throw Error("writing ", folder_.name(), ": ", action, ": ", text, hint);
  }

  void sync_files() const {
    for (const auto& entry : fs::directory_iterator(folder_.fresh())) {
      const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      int code = file < 0 || ::fsync(file) != 0 ? errno : 0;
      if (file >= 0) ::close(file);
      if (code != 0)
        throw Error("writing ", folder_.name(),
                    ": cannot sync it: ", std::generic_category().message(code),
                    hint_for_disk(code));
    }
  }

  DatabaseFolder folder_;
  NoLog no_log_;
  std::unique_ptr<leveldb::DB> db_;
  std::string last_key_;  // greatest one
  int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<DatabaseWriter> make_leveldb_writer(const std::string& path, bool overwrite) {
  return std::make_unique<LevelDbWriter>(path, overwrite);
}

}  // namespace crema
