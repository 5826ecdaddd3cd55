# The CUDA compiler, toolkit and cuDNN: all of them, or none and CREMA_HAS_CUDA stays OFF.

# enable_language stops the configuration when there is no compiler, so look first, also where the
# toolkit's installer puts it without touching PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CREMA_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda
    PATH_SUFFIXES bin)
  mark_as_advanced(CREMA_NVCC)
  if(CREMA_NVCC)
    set(CMAKE_CUDA_COMPILER "${CREMA_NVCC}")
  endif()
endif()

set(crema_cuda_missing "")
if(CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
  # Native code for Turing, Ampere and Hopper; PTX of the last one for whatever comes after.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  find_package(CUDNN 8)
  if(CUDNN_FOUND)
    set(CREMA_HAS_CUDA ON)
  else()
    set(crema_cuda_missing "cuDNN")
  endif()
else()
  set(crema_cuda_missing "nvcc")
endif()

if(NOT CREMA_HAS_CUDA)
  if(CREMA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CREMA_CUDA=ON, but ${crema_cuda_missing} was not found; \
put nvcc on PATH or set CUDA_HOME, and CUDNN_ROOT for cuDNN")
  endif()
  message(STATUS "CUDA is off: ${crema_cuda_missing} was not found")
endif()
