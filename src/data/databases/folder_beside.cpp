#include "data/databases/folder_beside.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/path_advice.hpp"
#include "core/sync_folder.hpp"
#include "crema/error.hpp"

namespace crema {
namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

const char* hint_for_disk(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; make room, or write to another disk";
    case EIO:
      return "; the disk may be full or failing: make room, or write to another disk";
    case EFBIG:
      return "; files may not be so large here: raise the limit (ulimit -f), or write to another "
             "disk";
    default:
      return "";
  }
}

FolderBeside::FolderBeside(fs::path path, std::string name) : path_(std::move(path)) {
  std::error_code code;
  if (const fs::path parent = parent_of(path_); !fs::is_directory(parent, code))
    throw Error("cannot write ", name, ": there is no folder '", parent.string(), "'",
                path_advice(path_.string(), "make it first"))
        .about(parent.string());
  check_new_path(path_.string());
  const auto check = [&](int error) {
    if (error != 0)
      throw Error("cannot write ", name,
                  ": cannot make a folder beside it: ", std::generic_category().message(error),
                  hint_for_disk(error));
  };
  std::string work = path_.string() + ".tmp.XXXXXX";
  if (::mkdtemp(work.data()) == nullptr) check(errno);
  work_ = work;
  fresh_ = work_ / "new";
  old_ = work_ / "old";
  fs::create_directory(fresh_, code);
  if (code) remove();
  check(code.value());
}

FolderBeside::~FolderBeside() { remove(); }

void FolderBeside::remove() noexcept {
  ::rmdir(fresh_.c_str());
  ::rmdir(work_.c_str());
}

void FolderBeside::take_name(std::error_code& failed) { fs::rename(fresh_, path_, failed); }

void FolderBeside::sync_name() {
  ::rmdir(work_.c_str());
  sync_folder(parent_of(path_));
}

}  // namespace crema
