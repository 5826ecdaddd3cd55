// The folders that an LMDB database is written in: whose they are, and how a new database takes the
// place of an old one. Nothing here touches a file that is not part of a database.
#pragma once

#include <filesystem>

namespace crema {

/// Whether this is a folder, and no link to one, with nothing in it but an LMDB database's files.
bool holds_only_database(const std::filesystem::path& folder);

/// Removes a database's files, then the folder when nothing else is in it. Does what it can.
void remove_database(const std::filesystem::path& folder) noexcept;

/// A locked file writer.lock in a folder: the folder is a writer's own. The lock ends with its
/// process, the file stays as the mark of what a killed writer left behind.
class WriterLock {
 public:
  WriterLock() = default;
  ~WriterLock() { release(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

  /// Locks `folder` in the name of `database`, making it where it is missing. Error when another
  /// writer has it, or when it is neither empty nor what a killed writer left.
  void claim(const std::filesystem::path& folder, const std::filesystem::path& database);
  /// Locks a folder that holds a finished database, after whoever is about to let it go.
  void mark(const std::filesystem::path& database);
  void release() noexcept;
  bool held() const { return file_ >= 0; }

 private:
  enum class Busy : bool { wait, fail };
  bool lock(const std::filesystem::path& folder, const std::filesystem::path& database, Busy busy);

  int file_ = -1;
};

/// Removes the mark of a folder that is finished.
void remove_mark(const std::filesystem::path& folder) noexcept;

/// Puts the folder `fresh` under the name `target`, which another folder has; returns where that
/// one is now. In one step where the system can do it. Where not (some network file systems), there
/// is a moment without a folder of that name; the old one is back before an Error is thrown.
std::filesystem::path replace_folder(const std::filesystem::path& fresh,
                                     const std::filesystem::path& target);

}  // namespace crema
