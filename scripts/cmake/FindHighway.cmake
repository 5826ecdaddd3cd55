# Finds Google Highway, SIMD for several processors in one program: target Highway::Highway and
# Highway_VERSION. Distributions differ in what its config file defines, hence this module.
find_path(Highway_INCLUDE_DIR hwy/contrib/math/math-inl.h)
find_library(Highway_LIBRARY hwy)
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)

if(Highway_INCLUDE_DIR)
  set(Highway_VERSION "")
  # Releases since 1.1 keep the version in base.h.
  set(highway_version_lines "")
  foreach(header IN ITEMS highway.h base.h)
    file(STRINGS "${Highway_INCLUDE_DIR}/hwy/${header}" found
      REGEX "#define HWY_(MAJOR|MINOR|PATCH) +[0-9]+")
    list(APPEND highway_version_lines ${found})
  endforeach()
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    if("${highway_version_lines}" MATCHES "HWY_${part} +([0-9]+)")
      list(APPEND Highway_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN Highway_VERSION "." Highway_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway
  REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR
  VERSION_VAR Highway_VERSION
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libhwy-dev")

if(Highway_FOUND AND NOT TARGET Highway::Highway)
  add_library(Highway::Highway UNKNOWN IMPORTED)
  set_target_properties(Highway::Highway PROPERTIES
    IMPORTED_LOCATION "${Highway_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}")
endif()
