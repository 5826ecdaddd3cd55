# Finds cpp-httplib: target CppHttplib::CppHttplib. Debian's package has the code in a library, whose
# classes depend on definitions that its pkg-config file has; elsewhere the header is all.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_CppHttplib QUIET cpp-httplib)
endif()
find_path(CppHttplib_INCLUDE_DIR httplib.h HINTS ${PC_CppHttplib_INCLUDE_DIRS})
find_library(CppHttplib_LIBRARY cpp-httplib HINTS ${PC_CppHttplib_LIBRARY_DIRS})
mark_as_advanced(CppHttplib_INCLUDE_DIR CppHttplib_LIBRARY)
if(CppHttplib_INCLUDE_DIR)
  file(STRINGS "${CppHttplib_INCLUDE_DIR}/httplib.h" CppHttplib_VERSION REGEX "#define CPPHTTPLIB_VERSION \"")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" CppHttplib_VERSION "${CppHttplib_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CppHttplib
  REQUIRED_VARS CppHttplib_INCLUDE_DIR
  VERSION_VAR CppHttplib_VERSION
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libcpp-httplib-dev")

if(CppHttplib_FOUND AND NOT TARGET CppHttplib::CppHttplib)
  if(CppHttplib_LIBRARY)
    add_library(CppHttplib::CppHttplib UNKNOWN IMPORTED)
    set_target_properties(CppHttplib::CppHttplib PROPERTIES
      IMPORTED_LOCATION "${CppHttplib_LIBRARY}"
      INTERFACE_COMPILE_OPTIONS "${PC_CppHttplib_CFLAGS_OTHER}")
  else()
    add_library(CppHttplib::CppHttplib INTERFACE IMPORTED)
  endif()
  set_target_properties(CppHttplib::CppHttplib PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CppHttplib_INCLUDE_DIR}")
endif()
