# Finds xxHash: target XXHash::XXHash. Its functions are compiled from the header, so nothing is linked.
find_path(XXHash_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHash_INCLUDE_DIR)

if(XXHash_INCLUDE_DIR)
  set(XXHash_VERSION "")
  file(STRINGS "${XXHash_INCLUDE_DIR}/xxhash.h" xxhash_version_lines
    REGEX "#define XXH_VERSION_(MAJOR|MINOR|RELEASE)[ \t]+[0-9]+")
  foreach(part IN ITEMS MAJOR MINOR RELEASE)
    if("${xxhash_version_lines}" MATCHES "XXH_VERSION_${part}[ \t]+([0-9]+)")
      list(APPEND XXHash_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN XXHash_VERSION "." XXHash_VERSION)
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
