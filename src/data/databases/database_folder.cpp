#include "data/databases/database_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "data/databases/class_file.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether this is a folder, and no link to one, with a database's files in it and nothing else.
bool holds_only_database(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(fs::symlink_status(folder, code))) return false;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!is_database_file(name) && name != kClassFile) return false;
  }
  return !code && (fs::exists(folder / "data.mdb", code) || fs::exists(folder / "CURRENT", code));
}

/// Removes a database's files, then the folder when nothing else is in it.
void remove_database(const fs::path& folder) noexcept {
  std::error_code code;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (is_database_file(name) || name == kClassFile) ::unlink(at->path().c_str());
  }
  ::rmdir(folder.c_str());
}

}  // namespace

bool is_database_file(const std::string& name) {
  const std::string_view text = name;
  for (const char* whole : {"data.mdb", "lock.mdb", "CURRENT", "LOCK", "LOG", "LOG.old"}) {
    if (text == whole) return true;
  }
  if (text.starts_with("MANIFEST-")) return is_number(text.substr(9));
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || !is_number(text.substr(0, dot))) return false;
  const std::string_view ending = text.substr(dot);
  return ending == ".ldb" || ending == ".sst" || ending == ".log" || ending == ".dbtmp";
}

DatabaseFolder::DatabaseFolder(std::string kind, const std::string& path, bool overwrite)
    : kind_(std::move(kind)), path_(fs::path(path).lexically_normal()), overwrite_(overwrite) {
  if (path.empty()) throw Error("the database to write has no path; name its folder");
  if (!path_.has_filename()) path_ = path_.parent_path();  // "train_lmdb/"
  std::error_code code;
  if (fs::is_symlink(path_, code)) {
    const fs::path named = path_;
    path_ = fs::canonical(named, code);
    if (code)
      throw Error("cannot write ", kind_, " '", named.string(), "': it is a link to nothing (",
                  code.message(), "); remove it, or choose another name");
  }
  check_target();
  folder_.emplace(path_, name());
}

DatabaseFolder::~DatabaseFolder() {
  if (folder_) remove_database(fresh());
}

void DatabaseFolder::check_target() const {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(path_, code))) return;
  if (!overwrite_)
    throw Error(
        "'", path_.string(),
        "' exists already; remove it, choose another name, or ask to overwrite it (--overwrite)");
  if (!holds_only_database(path_))
    throw Error("'", path_.string(),
                "' is not an LMDB database, nor a LevelDB one, and is not overwritten; "
                "remove it yourself, or choose another name");
  if (::access(path_.c_str(), W_OK) != 0)
    throw Error("'", path_.string(),
                "' cannot be overwritten: ", std::generic_category().message(errno),
                "; choose another name");
}

void DatabaseFolder::finish() {
  sync_folder(fresh());
  check_target();
  move_into_place();
  remove_database(folder_->old());
  folder_->sync_name();
}

void DatabaseFolder::move_into_place() {
  std::error_code code, back;
  const bool replaces = fs::exists(fs::symlink_status(path_, back));
  if (replaces) fs::rename(path_, folder_->old(), code);
  if (code)
    throw Error("cannot replace '", path_.string(), "': cannot move it away: ", code.message());
  folder_->take_name(code);
  if (!code) return;
  back.clear();
  if (replaces) fs::rename(folder_->old(), path_, back);
  throw Error("writing ", name(), ": cannot rename '", fresh().string(),
              "' to it: ", code.message(),
              back ? "; the database that was there is now '" + folder_->old().string() + "'" : "");
}

}  // namespace crema
