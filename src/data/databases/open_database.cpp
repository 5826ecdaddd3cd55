#include "data/databases/open_database.hpp"

#include <filesystem>
#include <system_error>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "data/databases/database_folder.hpp"
#include "data/databases/leveldb_database.hpp"
#include "data/databases/lmdb_source.hpp"
#include "data/databases/open_source.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace fs = std::filesystem;

std::shared_ptr<RecordSource> open_database(const DatabaseOptions& options) {
  const auto log = [&](Severity severity, const std::string& text) {
    if (options.logger) options.logger(severity, text);
  };
  if (options.path.empty()) throw Error("the data source has no path; name the database's folder");

  std::error_code code;
  fs::path folder = options.path;
  const fs::file_status status = fs::status(folder, code);
  if (!fs::exists(status)) {
    const bool missing = status.type() == fs::file_type::not_found;
    std::error_code none;
    throw Error("data source '", options.path, "' ",
                missing ? "does not exist" : "cannot be reached: " + code.message(),
                folder.is_relative() && path_advice(options.path).empty()
                    ? "; the path is relative to '" + fs::current_path(none).string() + "'"
                    : "",
                missing ? path_advice(options.path,
                                      "make it with crema convert-imageset, convert-annotations, "
                                      "convert-mnist or convert-cifar")
                        : "")
        .about(options.path);
  }
  if (!fs::is_directory(status)) {
    refuse_stand_in(options.path, "data source");
    if (!is_database_file(folder.filename().string()))
      throw Error(
          "data source '", options.path,
          "' is a file; name the folder of a database: of LMDB the one that holds data.mdb, "
          "of LevelDB the one that holds CURRENT. A list of images needs backend: IMAGE_LIST, a "
          "tar file backend: TAR");
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    log(Severity::info, text("data source '", options.path, "' is the file inside a database; ",
                             "opening the folder '", folder.string(), "'"));
  }
  const bool lmdb = fs::exists(folder / "data.mdb", code);
  if (code)
    throw Error("data source '", options.path, "' cannot be read: ", code.message())
        .about(options.path);
  if (!lmdb && !fs::exists(folder / "CURRENT", code))
    throw Error("data source '", options.path,
                "' is no database: the folder has no data.mdb (LMDB) and no CURRENT (LevelDB); ",
                guess_source_kind(folder.string()) == SourceKind::folder
                    ? "if its folders hold the images of a class each, set backend: FOLDER"
                    : "make one with crema convert-imageset, convert-annotations, convert-mnist or "
                      "convert-cifar");
  if (lmdb != (options.kind == DatabaseKind::lmdb)) {
    log(Severity::info,
        text("data source '", options.path, "' is ", lmdb ? "an LMDB" : "a LevelDB",
             " database and is opened as one; backend: ", lmdb ? "LMDB" : "LEVELDB", " says so"));
  }
  return lmdb ? open_lmdb(folder.string(), options.lock, options.logger)
              : open_leveldb(folder.string(), options.lock, options.logger);
}

}  // namespace crema
