// LevelDB databases: record sources and writers. Built without LevelDB, both throw an Error that
// says so.
#pragma once

#include <memory>
#include <string>

#include "data/databases/database_writer.hpp"
#include "data/databases/open_database.hpp"

namespace crema {

/// The database in `folder`, which holds a file CURRENT. Nothing is written there, whatever LevelDB
/// itself would do as it opens one, so read-only folders and several processes are fine. With
/// LockMode::automatic a shared lock is taken, and a database that another process has open through
/// LevelDB is an Error. Opening reads all records once, to count them. All sources of one database
/// in this process share it.
std::shared_ptr<RecordSource> open_leveldb(const std::string& folder, LockMode lock,
                                           const Logger& logger);

std::unique_ptr<DatabaseWriter> make_leveldb_writer(const std::string& path, bool overwrite);

}  // namespace crema
