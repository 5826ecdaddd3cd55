// The file system as LevelDB sees it while we read a database: what it writes stays in memory.
//
// LevelDB knows no opening for reading only. It replays the log into sorted tables, writes a new
// MANIFEST, removes old files and compacts, which a read-only folder refuses and which nobody wants
// of a reader. Here files that it writes are held in memory in front of the folder, and files that
// it removes are hidden.
#pragma once

#include <leveldb/env.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace crema {

class ReadOnlyEnv final : public leveldb::EnvWrapper {
 public:
  ReadOnlyEnv();
  ~ReadOnlyEnv() override;

  /// To be called before the database is closed: lets the compaction end that it began, without
  /// work, since LevelDB waits for it.
  void begin_to_close();

  /// Corruption for a log or a MANIFEST that is cut off, which LevelDB takes for its end.
  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** file) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override;
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string& name) override;
  leveldb::Status RemoveDir(const std::string& name) override;
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*work)(void*), void* argument) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** logger) override;

 private:
  struct Job {
    void (*work)(void*);
    void* argument;
  };
  bool in_memory(const std::string& name) { return memory_->FileExists(name); }
  bool is_hidden(const std::string& name);
  /// Corruption if a file of log records ends inside one.
  leveldb::Status check_end(const std::string& name);

  std::unique_ptr<leveldb::Env> memory_;
  std::mutex mutex_;  // guards what follows
  std::set<std::string> hidden_;
  std::vector<Job> parked_;
  bool closing_ = false;
};

}  // namespace crema
