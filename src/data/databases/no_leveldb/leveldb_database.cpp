// For builds without LevelDB.
#include "data/databases/leveldb_database.hpp"

#include "crema/error.hpp"

namespace crema {

std::shared_ptr<RecordSource> open_leveldb(const std::string& folder, LockMode, const Logger&) {
  throw Error("'", folder,
              "' is a LevelDB database, and this build of Crema has no LevelDB; build with "
              "CREMA_LEVELDB=ON (package libleveldb-dev), or write the database as LMDB");
}

std::unique_ptr<DatabaseWriter> make_leveldb_writer(const std::string& path, bool) {
  throw Error("cannot write LevelDB '", path,
              "': this build of Crema has no LevelDB; build with CREMA_LEVELDB=ON (package "
              "libleveldb-dev), or write LMDB");
}

}  // namespace crema
