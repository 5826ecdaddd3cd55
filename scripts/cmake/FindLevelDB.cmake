# Finds LevelDB: target LevelDB::LevelDB. Debian's package has no config file that says where.
find_path(LevelDB_INCLUDE_DIR leveldb/db.h)
find_library(LevelDB_LIBRARY leveldb)
mark_as_advanced(LevelDB_INCLUDE_DIR LevelDB_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LevelDB
  REQUIRED_VARS LevelDB_LIBRARY LevelDB_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "on Debian and Ubuntu: apt install libleveldb-dev, or configure with -DCREMA_LEVELDB=OFF")

if(LevelDB_FOUND AND NOT TARGET LevelDB::LevelDB)
  add_library(LevelDB::LevelDB UNKNOWN IMPORTED)
  set_target_properties(LevelDB::LevelDB PROPERTIES
    IMPORTED_LOCATION "${LevelDB_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LevelDB_INCLUDE_DIR}")
endif()
