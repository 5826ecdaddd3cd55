# Finds LevelDB: target LevelDB::LevelDB. Debian's package has no config file that says where.
find_path(LevelDB_INCLUDE_DIR leveldb/db.h)
# Reading a database without writing to it needs this one, which not every package has.
find_path(LevelDB_HELPERS_INCLUDE_DIR leveldb/helpers/memenv.h HINTS "${LevelDB_INCLUDE_DIR}")
find_library(LevelDB_LIBRARY leveldb)
mark_as_advanced(LevelDB_INCLUDE_DIR LevelDB_HELPERS_INCLUDE_DIR LevelDB_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LevelDB
  REQUIRED_VARS LevelDB_LIBRARY LevelDB_INCLUDE_DIR LevelDB_HELPERS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "on Debian and Ubuntu: apt install libleveldb-dev, or configure with -DCREMA_LEVELDB=OFF")

crema_import_library(LevelDB)
