// LevelDB databases as programs leave them that end without sorting their log.
#pragma once

#include <string>

#include "support/database.hpp"

namespace crema::test {

/// A database whose records are in its log only. The test fails in a build without LevelDB.
void write_leveldb_log(const std::string& path, const Records& records);

}  // namespace crema::test
