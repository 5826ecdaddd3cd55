#include "data/databases/leveldb/read_only_env.hpp"

#include <leveldb/helpers/memenv.h>

#include <algorithm>
#include <filesystem>

#include "crema/error.hpp"

namespace crema {

using leveldb::Status;

ReadOnlyEnv::ReadOnlyEnv()
    : EnvWrapper(leveldb::Env::Default()), memory_(leveldb::NewMemEnv(leveldb::Env::Default())) {}
ReadOnlyEnv::~ReadOnlyEnv() = default;

bool ReadOnlyEnv::is_hidden(const std::string& name) {
  const std::lock_guard guard(mutex_);
  return hidden_.contains(name);
}

Status ReadOnlyEnv::NewSequentialFile(const std::string& name, leveldb::SequentialFile** file) {
  if (in_memory(name)) return memory_->NewSequentialFile(name, file);
  if (is_hidden(name)) return Status::NotFound(name);
  const std::string own = std::filesystem::path(name).filename().string();
  if (own.ends_with(".log") || own.starts_with("MANIFEST-")) {
    const Status status = check_end(name);
    if (!status.ok()) return status;
  }
  return target()->NewSequentialFile(name, file);
}

// The format of such files: blocks of 32 KiB with records, or parts of them, that do not cross the
// ends of blocks. In front of each are its checksum (4 bytes), its length (2) and its type (1).
Status ReadOnlyEnv::check_end(const std::string& name) {
  constexpr uint64_t kBlock = 32768, kHeader = 7;
  constexpr int kZero = 0, kFirst = 2, kMiddle = 3;  // types; kZero: space that was not used
  uint64_t size = 0;
  leveldb::RandomAccessFile* opened = nullptr;
  Status status = target()->GetFileSize(name, &size);
  if (!status.ok() || size == 0) return status;
  status = target()->NewRandomAccessFile(name, &opened);
  const std::unique_ptr<leveldb::RandomAccessFile> file(opened);
  bool unfinished = false;
  uint64_t at = 0;
  while (status.ok() && at < size) {
    const uint64_t block_end = at / kBlock * kBlock + kBlock;
    if (block_end - at < kHeader) {
      at = block_end;
      continue;
    }
    if (size - at < kHeader) break;
    char scratch[kHeader];
    leveldb::Slice header;
    status = file->Read(at, kHeader, &header, scratch);
    if (!status.ok()) break;
    if (header.size() < kHeader) break;
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(header[i]); };
    const uint64_t length = byte(4) + 256u * byte(5);
    const int type = byte(6);
    const uint64_t end = at + kHeader + length;
    if (end > size && size < block_end) break;
    if ((type == kZero && length == 0) || end > block_end) {
      at = block_end;  // a length that LevelDB reports
      continue;
    }
    unfinished = type == kFirst || type == kMiddle;
    at = end;
  }
  if (!status.ok() || (at >= size && !unfinished)) return status;
  return Status::Corruption(name, text("it ends inside a record at byte ", size,
                                       ": it is cut off, and what was behind is lost"));
}

Status ReadOnlyEnv::NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) {
  if (in_memory(name)) return memory_->NewRandomAccessFile(name, file);
  if (is_hidden(name)) return Status::NotFound(name);
  return target()->NewRandomAccessFile(name, file);
}

Status ReadOnlyEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** file) {
  {
    const std::lock_guard guard(mutex_);
    if (closing_) return Status::IOError(name, "the database is being closed");
  }
  return memory_->NewWritableFile(name, file);
}

Status ReadOnlyEnv::NewAppendableFile(const std::string& name, leveldb::WritableFile**) {
  return Status::NotSupported(name, "nothing is appended to a database that is read");
}

bool ReadOnlyEnv::FileExists(const std::string& name) {
  return in_memory(name) || (!is_hidden(name) && target()->FileExists(name));
}

Status ReadOnlyEnv::GetChildren(const std::string& folder, std::vector<std::string>* names) {
  std::vector<std::string> stored;
  const Status status = target()->GetChildren(folder, &stored);
  if (!status.ok()) return status;
  memory_->GetChildren(folder, names);
  for (std::string& name : stored) {
    if (is_hidden(folder + "/" + name) || std::ranges::count(*names, name) > 0) continue;
    names->push_back(std::move(name));
  }
  return status;
}

Status ReadOnlyEnv::RemoveFile(const std::string& name) {
  if (in_memory(name)) memory_->RemoveFile(name);
  const std::lock_guard guard(mutex_);
  hidden_.insert(name);
  return Status::OK();
}

Status ReadOnlyEnv::CreateDir(const std::string&) { return Status::OK(); }
Status ReadOnlyEnv::RemoveDir(const std::string&) { return Status::OK(); }

Status ReadOnlyEnv::GetFileSize(const std::string& name, uint64_t* size) {
  if (in_memory(name)) return memory_->GetFileSize(name, size);
  if (is_hidden(name)) return Status::NotFound(name);
  return target()->GetFileSize(name, size);
}

Status ReadOnlyEnv::RenameFile(const std::string& from, const std::string& to) {
  return memory_->RenameFile(from, to);  // it renames what it wrote, and the log of its doings
}

// Several processes may read: who opens the database takes a lock that they can share.
Status ReadOnlyEnv::LockFile(const std::string& name, leveldb::FileLock** lock) {
  return memory_->LockFile(name, lock);
}
Status ReadOnlyEnv::UnlockFile(leveldb::FileLock* lock) { return memory_->UnlockFile(lock); }

// Compaction would bring the whole database into memory. LevelDB asks for one at a time.
void ReadOnlyEnv::Schedule(void (*work)(void*), void* argument) {
  {
    const std::lock_guard guard(mutex_);
    if (!closing_) return parked_.push_back({work, argument});
  }
  target()->Schedule(work, argument);
}

void ReadOnlyEnv::begin_to_close() {
  std::vector<Job> jobs;
  {
    const std::lock_guard guard(mutex_);
    closing_ = true;
    jobs.swap(parked_);
  }
  for (const Job& job : jobs) target()->Schedule(job.work, job.argument);
}

Status ReadOnlyEnv::NewLogger(const std::string& name, leveldb::Logger**) {
  return Status::NotSupported(name, "a reader logs nothing");
}

}  // namespace crema
