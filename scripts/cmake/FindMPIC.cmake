# Finds the C library of MPI: target MPIC::MPIC. CMake's own FindMPI asks compiler wrappers and needs the language C.
# Debian's mpi-c.pc leads to the implementation that is chosen on the machine; MPIC_ROOT names another one.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_search_module(PC_MPIC QUIET mpi-c ompi-c mpich)
endif()
find_path(MPIC_INCLUDE_DIR mpi.h HINTS ${PC_MPIC_INCLUDE_DIRS})
find_library(MPIC_LIBRARY NAMES mpi mpich HINTS ${PC_MPIC_LIBRARY_DIRS})
mark_as_advanced(MPIC_INCLUDE_DIR MPIC_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MPIC
  REQUIRED_VARS MPIC_LIBRARY MPIC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libopenmpi-dev openmpi-bin")

crema_import_library(MPIC)
if(TARGET MPIC::MPIC)
  # The bindings for C++ are gone from the standard; headers of some implementations still have them.
  set_target_properties(MPIC::MPIC PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "OMPI_SKIP_MPICXX=1;MPICH_SKIP_MPICXX=1")
endif()
