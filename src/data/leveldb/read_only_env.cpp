#include "data/leveldb/read_only_env.hpp"

#include <leveldb/helpers/memenv.h>

#include <algorithm>
#include <filesystem>

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
  return target()->NewSequentialFile(name, file);
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
