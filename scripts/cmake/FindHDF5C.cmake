# Finds the C library of HDF5: target HDF5C::HDF5C and HDF5C_VERSION. CMake's own FindHDF5 asks a compiler
# wrapper, which need not be installed, and knows no plain target.
find_path(HDF5C_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
# Debian's name for the build without MPI comes first.
find_library(HDF5C_LIBRARY NAMES hdf5_serial hdf5)
mark_as_advanced(HDF5C_INCLUDE_DIR HDF5C_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(HDF5C_INCLUDE_DIR)
  crema_version_of_headers(HDF5C H5_VERS_ "MAJOR;MINOR;RELEASE" "${HDF5C_INCLUDE_DIR}/H5public.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HDF5C
  REQUIRED_VARS HDF5C_LIBRARY HDF5C_INCLUDE_DIR
  VERSION_VAR HDF5C_VERSION
  REASON_FAILURE_MESSAGE
    "on Debian and Ubuntu: apt install libhdf5-dev, or configure with -DCREMA_HDF5=OFF")

crema_import_library(HDF5C)
