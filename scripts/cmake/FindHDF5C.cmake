# Finds the C library of HDF5: target HDF5C::HDF5C and HDF5C_VERSION. CMake's own FindHDF5 asks a compiler
# wrapper, which need not be installed, and knows no plain target.
find_path(HDF5C_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
# Debian's name for the build without MPI comes first.
find_library(HDF5C_LIBRARY NAMES hdf5_serial hdf5)
mark_as_advanced(HDF5C_INCLUDE_DIR HDF5C_LIBRARY)

if(HDF5C_INCLUDE_DIR)
  set(HDF5C_VERSION "")
  file(STRINGS "${HDF5C_INCLUDE_DIR}/H5public.h" hdf5_version_lines
    REGEX "#define H5_VERS_(MAJOR|MINOR|RELEASE)[ \t]+[0-9]+")
  foreach(part IN ITEMS MAJOR MINOR RELEASE)
    if("${hdf5_version_lines}" MATCHES "H5_VERS_${part}[ \t]+([0-9]+)")
      list(APPEND HDF5C_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN HDF5C_VERSION "." HDF5C_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HDF5C
  REQUIRED_VARS HDF5C_LIBRARY HDF5C_INCLUDE_DIR
  VERSION_VAR HDF5C_VERSION
  REASON_FAILURE_MESSAGE
    "on Debian and Ubuntu: apt install libhdf5-dev, or configure with -DCREMA_HDF5=OFF")

if(HDF5C_FOUND AND NOT TARGET HDF5C::HDF5C)
  add_library(HDF5C::HDF5C UNKNOWN IMPORTED)
  set_target_properties(HDF5C::HDF5C PROPERTIES
    IMPORTED_LOCATION "${HDF5C_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${HDF5C_INCLUDE_DIR}")
endif()
