#include "support/leveldb_log.hpp"

#include <gtest/gtest.h>

#if CREMA_BUILT_WITH_LEVELDB
#include <leveldb/db.h>
#endif

namespace crema::test {

#if CREMA_BUILT_WITH_LEVELDB

void write_leveldb_log(const std::string& path, const Records& records) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, path, &opened);
  const std::unique_ptr<leveldb::DB> database(opened);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (const auto& [key, value] : records) ASSERT_TRUE(database->Put({}, key, value).ok());
}

#else

void write_leveldb_log(const std::string&, const Records&) { FAIL() << "built without LevelDB"; }

#endif

}  // namespace crema::test
