# Finds xxHash: target XXHash::XXHash. Its functions are compiled from the header, so nothing is linked.
find_path(XXHash_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHash_INCLUDE_DIR)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(XXHash_INCLUDE_DIR)
  crema_version_of_headers(XXHash XXH_VERSION_ "MAJOR;MINOR;RELEASE" "${XXHash_INCLUDE_DIR}/xxhash.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHash
  REQUIRED_VARS XXHash_INCLUDE_DIR
  VERSION_VAR XXHash_VERSION
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libxxhash-dev")

if(XXHash_FOUND AND NOT TARGET XXHash::XXHash)
  add_library(XXHash::XXHash INTERFACE IMPORTED)
  set_target_properties(XXHash::XXHash PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${XXHash_INCLUDE_DIR}")
endif()
