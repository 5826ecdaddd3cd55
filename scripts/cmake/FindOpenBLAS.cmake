# Finds OpenBLAS with its C interface: target OpenBLAS::OpenBLAS.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_OpenBLAS QUIET openblas)
endif()

find_path(OpenBLAS_INCLUDE_DIR cblas.h
  HINTS ${PC_OpenBLAS_INCLUDE_DIRS}
  PATH_SUFFIXES openblas-openmp openblas)
find_library(OpenBLAS_LIBRARY openblas
  HINTS ${PC_OpenBLAS_LIBRARY_DIRS}
  PATH_SUFFIXES openblas-openmp)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libopenblas-openmp-dev")

crema_import_library(OpenBLAS)
