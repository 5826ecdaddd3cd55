// A folder that is written under a temporary name, PATH.tmp.XXXXXX/new, until it is whole.
#pragma once

#include <filesystem>
#include <string>

namespace crema {

/// The folder that `path` lies in; "." for a name alone.
std::filesystem::path parent_of(const std::filesystem::path& path);

class FolderBeside {
 public:
  /// `path` has no '/' at its end. `name` is what messages call it. Error if its parent is no
  /// folder, or if the temporary one cannot be made.
  FolderBeside(std::filesystem::path path, std::string name);
  /// Removes the temporary folders that are empty. Files in fresh() are the owner's to remove.
  ~FolderBeside();
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;

  /// The folder to write to. It exists, is empty, and has the usual rights.
  const std::filesystem::path& fresh() const { return fresh_; }
  /// Where something may be put aside, such as what `path` is now; it is not removed. The folder
  /// that both lie in is closed to others.
  const std::filesystem::path& old() const { return old_; }
  /// Renames the folder, whose files are synced, to `path`. Nothing may be there but an empty
  /// folder.
  void take_name(std::error_code& failed);
  /// Syncs the name. Behind take_name(), when old() is gone.
  void sync_name();

 private:
  void remove() noexcept;

  std::filesystem::path path_;
  std::filesystem::path work_, fresh_, old_;  // work_: a folder of this writer's own, with both
};

/// The way out of an error of the file system, to be put behind its message: "; ...", or "".
const char* hint_for_disk(int code);

}  // namespace crema
