# The CUDA compiler, toolkit and cuDNN: all of them, or none, and CREMA_HAS_CUDA stays OFF.

# enable_language stops the configuration when there is no compiler, so look first, also where the
# toolkit's installer puts it without touching PATH.
if(CMAKE_CUDA_COMPILER)
  set(crema_nvcc "${CMAKE_CUDA_COMPILER}")
elseif(DEFINED ENV{CUDACXX})
  set(crema_nvcc "$ENV{CUDACXX}")
else()
  find_program(CREMA_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda
    PATH_SUFFIXES bin)
  mark_as_advanced(CREMA_NVCC)
  set(crema_nvcc "${CREMA_NVCC}")
endif()

# "" when CUDA can be used, else why not. The sources are C++20, which nvcc compiles from 12.0 on.
function(crema_try_nvcc nvcc why)
  set(${why} "" PARENT_SCOPE)
  if(NOT nvcc)
    set(${why} "nvcc was not found; put it on PATH or set CUDA_HOME" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT text MATCHES "release ([0-9.]+)")
    set(${why} "${nvcc} does not say of which CUDA release it is" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS 12)
    set(${why} "${nvcc} is of CUDA ${CMAKE_MATCH_1}; 12.0 or later is needed" PARENT_SCOPE)
  endif()
endfunction()
crema_try_nvcc("${crema_nvcc}" crema_cuda_missing)

# The architectures of the devices here, if nvcc knows them all. CMake's own "native" stops the configuration where there
# is no device. Else: code for Ampere, which Ada runs too, and for Hopper, and PTX of Hopper, from which
# drivers make code for what came after. Each further one costs as much time as the first. An older device does not
# compute in bf16 or TF32; built on such a machine, or with CMAKE_CUDA_ARCHITECTURES=75, Crema runs there.
function(crema_cuda_architectures nvcc result)
  set(architectures "")
  find_program(CREMA_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(CREMA_NVIDIA_SMI)
  if(CREMA_NVIDIA_SMI)
    execute_process(COMMAND "${CREMA_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE devices ERROR_QUIET RESULT_VARIABLE status TIMEOUT 60)
    execute_process(COMMAND "${nvcc}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+" known "${known}")
    if(status EQUAL 0)
      string(REGEX MATCHALL "[0-9]+[.][0-9]+" devices "${devices}")
      foreach(device IN LISTS devices)
        string(REPLACE "." "" device ${device})
        if(NOT device IN_LIST known)
          set(architectures "")
          break()
        endif()
        list(APPEND architectures ${device}-real)
      endforeach()
      list(REMOVE_DUPLICATES architectures)
    endif()
  endif()
  if(NOT architectures)
    set(architectures 80-real 90)
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()

if(NOT crema_cuda_missing)
  # In the cache, so that a build folder keeps its own when a device comes or goes.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    crema_cuda_architectures("${crema_nvcc}" architectures)
    set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
      "What CUDA code is made for: that of the devices here, or else of Ampere, Ada and Hopper")
    message(STATUS "CUDA code is made for ${architectures} (CMAKE_CUDA_ARCHITECTURES)")
  endif()
  # A compiler that does not work, since it knows no such host compiler, must not stop us either.
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
    unset(CMAKE_CUDA_COMPILER)
    set(ENV{CUDACXX} "${crema_nvcc}")
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12)
    find_package(CUDNN 9.8)
    if(CUDAToolkit_FOUND AND CUDNN_FOUND)
      set(CREMA_HAS_CUDA ON)
      find_package(NVJPEG)
      set(CREMA_HAS_NVJPEG ${NVJPEG_FOUND})
      find_package(CUPTI)
      set(CREMA_HAS_CUPTI ${CUPTI_FOUND})
    elseif(CUDAToolkit_FOUND)
      set(crema_cuda_missing "cuDNN 9.8 or later was not found; set CUDNN_ROOT")
    else()
      set(crema_cuda_missing "the libraries of CUDA 12 or later were not found; set CUDAToolkit_ROOT")
    endif()
  else()
    set(crema_cuda_missing "${crema_nvcc} does not compile here, see CMakeFiles/CMakeError.log; \
CMAKE_CUDA_HOST_COMPILER names another compiler for it to work with")
  endif()
endif()

if(NOT CREMA_HAS_CUDA)
  if(CREMA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CREMA_CUDA=ON, but ${crema_cuda_missing}")
  endif()
  message(STATUS "CUDA is off: ${crema_cuda_missing}")
endif()
