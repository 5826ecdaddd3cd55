# Finds cuDNN in CUDNN_ROOT, next to the CUDA toolkit or in the system: target CUDNN::CUDNN and
# CUDNN_VERSION. Call after find_package(CUDAToolkit).
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(CUDNN_INCLUDE_DIR AND EXISTS "${CUDNN_INCLUDE_DIR}/cudnn_version.h")
  crema_version_of_headers(CUDNN CUDNN_ "MAJOR;MINOR;PATCHLEVEL" "${CUDNN_INCLUDE_DIR}/cudnn_version.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN
  REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
  VERSION_VAR CUDNN_VERSION
  REASON_FAILURE_MESSAGE "set CUDNN_ROOT to the folder above cuDNN's include and lib")

crema_import_library(CUDNN)
