# Finds oneDNN with its CPU engine: target OneDNN::OneDNN and OneDNN_VERSION.
# The config file that Debian ships is not used: it insists on the OpenCL headers, which only oneDNN's
# GPU engine needs.
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/FindParts.cmake")
if(OneDNN_INCLUDE_DIR)
  crema_version_of_headers(OneDNN DNNL_VERSION_ "MAJOR;MINOR;PATCH"
    "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
  REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
  VERSION_VAR OneDNN_VERSION
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libdnnl-dev")

crema_import_library(OneDNN)
