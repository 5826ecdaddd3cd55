# Every library Crema stands on. After this file CREMA_HAS_ONEDNN and CREMA_HAS_CUDA are ON or OFF.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(OpenBLAS REQUIRED)
find_package(LMDB REQUIRED)
find_package(Highway 1.0.3 REQUIRED)

# Releases since 22 link Abseil, which only their own config file knows.
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf 3.12 REQUIRED)
endif()

if(CREMA_OPENCV)
  find_package(OpenCVImage REQUIRED)
endif()
if(CREMA_HDF5)
  find_package(HDF5C 1.10 REQUIRED)
endif()

set(CREMA_HAS_ONEDNN OFF)
if(NOT CREMA_ONEDNN STREQUAL "OFF")
  find_package(OneDNN 2.6)
  if(OneDNN_FOUND)
    set(CREMA_HAS_ONEDNN ON)
  elseif(CREMA_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "CREMA_ONEDNN=ON, but oneDNN 2.6 or later was not found")
  endif()
endif()

set(CREMA_HAS_CUDA OFF)
if(NOT CREMA_CUDA STREQUAL "OFF")
  include(cuda)
endif()
