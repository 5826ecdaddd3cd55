# Every library Crema stands on. After this file CREMA_HAS_ONEDNN, CREMA_HAS_CUDA, CREMA_HAS_HTTPLIB, CREMA_HAS_MPI
# and CREMA_HAS_YAML are ON or OFF.

# Stops where `found` is not true: names the library, Debian's packages that have it, and the option
# that leaves it out.
function(crema_require found library packages option)
  if(NOT ${found})
    message(FATAL_ERROR "${library} was not found; on Debian and Ubuntu: \
apt install ${packages}, or configure with -D${option}=OFF")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(OpenBLAS REQUIRED)
find_package(LMDB REQUIRED)
find_package(Highway 1.0.3 REQUIRED)
# From 0.8.0 on the results of XXH3 are fixed.
find_package(XXHash 0.8.0 REQUIRED)

# Releases since 22 link Abseil, which only their own config file knows.
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf 3.12 REQUIRED)
endif()

if(CREMA_OPENCV)
  find_package(OpenCVImage REQUIRED)
endif()
if(CREMA_LIBJPEG)
  find_package(JPEG)
  crema_require(JPEG_FOUND "The JPEG library" "libjpeg-dev" CREMA_LIBJPEG)
  include(CheckCXXSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
  check_cxx_symbol_exists(jpeg_skip_scanlines "cstdio;jpeglib.h" CREMA_LIBJPEG_IS_TURBO)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT CREMA_LIBJPEG_IS_TURBO)
    unset(CREMA_LIBJPEG_IS_TURBO CACHE)  # another library is to be looked at
    message(FATAL_ERROR "The JPEG library found is not libjpeg-turbo 1.5 or later; on Debian and Ubuntu: \
apt install libjpeg-dev, or configure with -DCREMA_LIBJPEG=OFF")
  endif()
endif()
if(CREMA_LIBPNG)
  find_package(PNG 1.6)
  crema_require(PNG_FOUND "libpng 1.6 or later" "libpng-dev" CREMA_LIBPNG)
endif()
if(CREMA_LIBGIF)
  find_package(GIF 5.1)
  crema_require(GIF_FOUND "giflib 5.1 or later" "libgif-dev" CREMA_LIBGIF)
endif()
if(CREMA_HDF5)
  # From 1.10.7 on a program can lock a file instead of the library.
  find_package(HDF5C 1.10.7 REQUIRED)
endif()
if(CREMA_LEVELDB)
  find_package(LevelDB REQUIRED)
endif()
if(CREMA_LIBARCHIVE)
  find_package(LibArchive 3.4)
  crema_require(LibArchive_FOUND "libarchive 3.4 or later" "libarchive-dev" CREMA_LIBARCHIVE)
endif()
if(CREMA_ANNOTATIONS)
  foreach(library IN ITEMS pugixml nlohmann_json)
    find_package(${library} CONFIG)
    crema_require(${library}_FOUND ${library} "libpugixml-dev nlohmann-json3-dev" CREMA_ANNOTATIONS)
  endforeach()
  find_library(Pugixml_LIBRARY pugixml)  # for crema.pc
  mark_as_advanced(Pugixml_LIBRARY)
endif()
# For the names of classes in the YAML file of a data set; without it these are refused.
set(CREMA_HAS_YAML OFF)
set(CREMA_YAML_TARGET "")
if(CREMA_ANNOTATIONS)
  find_package(yaml-cpp 0.6 CONFIG QUIET)
  if(yaml-cpp_FOUND)
    set(CREMA_HAS_YAML ON)
    set(CREMA_YAML_TARGET yaml-cpp)
    if(TARGET yaml-cpp::yaml-cpp)  # since 0.8
      set(CREMA_YAML_TARGET yaml-cpp::yaml-cpp)
    endif()
    find_library(YamlCpp_LIBRARY yaml-cpp)  # for crema.pc
    mark_as_advanced(YamlCpp_LIBRARY)
  else()
    message(STATUS "yaml-cpp was not found: names of classes are read from text files only; on Debian \
and Ubuntu: apt install libyaml-cpp-dev")
  endif()
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

set(CREMA_HAS_HTTPLIB OFF)
if(NOT CREMA_HTTPLIB STREQUAL "OFF")
  find_package(CppHttplib 0.11)
  if(CppHttplib_FOUND)
    set(CREMA_HAS_HTTPLIB ON)
  elseif(CREMA_HTTPLIB STREQUAL "ON")
    message(FATAL_ERROR "CREMA_HTTPLIB=ON, but cpp-httplib 0.11 or later was not found; on Debian and Ubuntu: \
apt install libcpp-httplib-dev")
  endif()
endif()

set(CREMA_HAS_MPI OFF)
if(NOT CREMA_MPI STREQUAL "OFF")
  find_package(MPIC)
  if(MPIC_FOUND)
    set(CREMA_HAS_MPI ON)
  elseif(CREMA_MPI STREQUAL "ON")
    message(FATAL_ERROR "CREMA_MPI=ON, but the C library of MPI was not found; on Debian and Ubuntu: \
apt install libopenmpi-dev openmpi-bin")
  endif()
endif()

set(CREMA_HAS_CUDA OFF)
if(NOT CREMA_CUDA STREQUAL "OFF")
  include(cuda)
endif()

# Links a library that the build may leave out.
function(crema_link_if condition target library)
  if(${condition})
    target_link_libraries(${target} PRIVATE ${library})
  endif()
endfunction()
