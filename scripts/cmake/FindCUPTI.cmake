# Finds the header of CUPTI in CUPTI_ROOT, next to the CUDA toolkit, in its extras/CUPTI or in the system: target
# CUPTI::CUPTI. The library itself is loaded by the program. Call after find_package(CUDAToolkit).
find_path(CUPTI_INCLUDE_DIR cupti.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "${CUDAToolkit_LIBRARY_ROOT}" "${CUDAToolkit_TARGET_DIR}"
  PATH_SUFFIXES include extras/CUPTI/include)
mark_as_advanced(CUPTI_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUPTI
  REQUIRED_VARS CUPTI_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "set CUPTI_ROOT to the folder above CUPTI's include")

if(CUPTI_FOUND AND NOT TARGET CUPTI::CUPTI)
  add_library(CUPTI::CUPTI INTERFACE IMPORTED)
  set_target_properties(CUPTI::CUPTI PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CUPTI_INCLUDE_DIR}")
endif()
