// The folder of a database that is being written, under a temporary name until it is whole.
//
// The files are written to a FolderBeside, NAME.tmp.XXXXXX/new. finish() renames it. If there is a
// database that is to be overwritten, it is moved to old/ beside new/ first and removed last: a
// writer that is killed leaves the folder, with the new database and possibly the old one. Of what
// was there before, only files of databases are removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/databases/folder_beside.hpp"

namespace crema {

class DatabaseFolder {
 public:
  /// Error when `path` exists and `overwrite` is off, or when it is no database of a kind that is
  /// known here. A link stands for the database that it leads to. `kind` is a word for messages.
  DatabaseFolder(std::string kind, const std::string& path, bool overwrite);
  /// Without finish(): removes what was written.
  ~DatabaseFolder();
  DatabaseFolder(const DatabaseFolder&) = delete;
  DatabaseFolder& operator=(const DatabaseFolder&) = delete;

  /// The folder to write the database's files to; it exists and is empty.
  const std::filesystem::path& fresh() const { return folder_->fresh(); }
  /// Kind and name of the database, for messages.
  std::string name() const { return kind_ + " '" + path_.string() + "'"; }
  /// Makes the database, whose files are closed and synced, appear under its name. Error when the
  /// name was taken since the writer began, or when it cannot be renamed; a database that was to be
  /// overwritten is under its name then.
  void finish();

 private:
  void check_target() const;
  void move_into_place();

  std::string kind_;
  std::filesystem::path path_;
  bool overwrite_;
  std::optional<FolderBeside> folder_;  // none before the target is checked
};

/// Whether LMDB or LevelDB has files of this name in the folders of its databases.
bool is_database_file(const std::string& name);

}  // namespace crema
