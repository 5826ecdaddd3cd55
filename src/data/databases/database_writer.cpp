#include "data/databases/database_writer.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "crema/error.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/leveldb_database.hpp"
#include "data/databases/lmdb_writer.hpp"
#include "data/records/datum.hpp"

namespace crema {

void DatabaseWriter::name_classes(std::vector<std::string> names) {
  check_class_names(names);
  class_names_ = std::move(names);
}

std::unique_ptr<DatabaseWriter> make_database_writer(DatabaseKind kind, const std::string& path,
                                                     bool overwrite) {
  if (kind == DatabaseKind::leveldb) return make_leveldb_writer(path, overwrite);
  return std::make_unique<LmdbWriter>(path, overwrite);
}

DatabaseKind database_kind(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "lmdb") return DatabaseKind::lmdb;
  if (lower == "leveldb") return DatabaseKind::leveldb;
  throw Error("backend '", name, "' is unknown",
              did_you_mean(lower, {"lmdb", "leveldb"}, "there are"));
}

void check_key(std::string_view key, const std::string& database) {
  constexpr size_t kMost = DatabaseWriter::max_key_size();
  if (key.empty() || key.size() > kMost)
    throw KeyError("writing ", database, ": key '", printable_key(key), "' has ", key.size(),
                   " bytes; 1 to ", kMost, " are possible");
}

}  // namespace crema
