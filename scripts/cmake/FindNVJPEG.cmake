# Finds the header of nvJPEG in NVJPEG_ROOT, next to the CUDA toolkit or in the system: target NVJPEG::NVJPEG and
# NVJPEG_VERSION. The library itself is loaded by the program. Call after find_package(CUDAToolkit).
find_path(NVJPEG_INCLUDE_DIR nvjpeg.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(NVJPEG_INCLUDE_DIR)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(NVJPEG_INCLUDE_DIR)
  crema_version_of_headers(NVJPEG NVJPEG_VER_ "MAJOR;MINOR;PATCH" "${NVJPEG_INCLUDE_DIR}/nvjpeg.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NVJPEG
  REQUIRED_VARS NVJPEG_INCLUDE_DIR
  VERSION_VAR NVJPEG_VERSION
  REASON_FAILURE_MESSAGE "set NVJPEG_ROOT to the folder above nvJPEG's include")

if(NVJPEG_FOUND AND NOT TARGET NVJPEG::NVJPEG)
  add_library(NVJPEG::NVJPEG INTERFACE IMPORTED)
  set_target_properties(NVJPEG::NVJPEG PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${NVJPEG_INCLUDE_DIR}")
endif()
