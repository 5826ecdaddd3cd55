# Finds Google Highway, SIMD for several processors in one program: target Highway::Highway and
# Highway_VERSION. Distributions differ in what its config file defines, hence this module.
find_path(Highway_INCLUDE_DIR hwy/contrib/math/math-inl.h)
find_library(Highway_LIBRARY hwy)
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(Highway_INCLUDE_DIR)
  # Releases since 1.1 keep the version in base.h.
  crema_version_of_headers(Highway HWY_ "MAJOR;MINOR;PATCH"
    "${Highway_INCLUDE_DIR}/hwy/highway.h" "${Highway_INCLUDE_DIR}/hwy/base.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway
  REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR
  VERSION_VAR Highway_VERSION
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libhwy-dev")

crema_import_library(Highway)
