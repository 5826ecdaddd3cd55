// Opens a database of records, LMDB or LevelDB.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "crema/context.hpp"
#include "data/records/record_source.hpp"

namespace crema {

enum class DatabaseKind : uint8_t { leveldb, lmdb };
/// `automatic` takes the database's lock where the file system allows it; `none` never does, for
/// read-only mounts and network file systems. Without it nothing may write while we read.
enum class LockMode : uint8_t { automatic, none };

struct DatabaseOptions {
  /// The database's folder; a file of the database in it does too.
  std::string path;
  /// What the caller takes it for. A database of the other kind is opened, too, and this is logged.
  DatabaseKind kind = DatabaseKind::lmdb;
  LockMode lock = LockMode::automatic;
  /// Receives warnings.
  Logger logger;
};

/// Opens a database for reading. Error if there is none, or if it is empty, truncated, or of a kind
/// that this build does not have.
std::shared_ptr<RecordSource> open_database(const DatabaseOptions& options);

}  // namespace crema
