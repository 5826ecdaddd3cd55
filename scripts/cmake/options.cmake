# What a build can choose, and what follows from it for every target: crema_flags(target).

set(CREMA_CUDA AUTO CACHE STRING "GPU layers with CUDA and cuDNN: AUTO (when found), ON or OFF")
set(CREMA_ONEDNN AUTO CACHE STRING "oneDNN engines on the CPU: AUTO (when found), ON or OFF")
set(CREMA_HTTPLIB AUTO CACHE STRING "Pages of `crema board` by cpp-httplib: AUTO (when found), ON or OFF")
set(CREMA_MPI AUTO CACHE STRING "Training in several processes by MPI: AUTO (when found), ON or OFF")
if(PROJECT_IS_TOP_LEVEL)
  set(crema_tests AUTO)
else()
  set(crema_tests OFF)
endif()
set(CREMA_TESTS ${crema_tests} CACHE STRING "Build the tests: AUTO (when GoogleTest is found), ON or OFF")
foreach(option IN ITEMS CREMA_CUDA CREMA_ONEDNN CREMA_HTTPLIB CREMA_MPI CREMA_TESTS)
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${option}=${${option}}; use AUTO, ON or OFF")
  endif()
endforeach()
option(CREMA_OPENCV "Read and resize image files with OpenCV" ON)
option(CREMA_LIBJPEG "Read JPEG files with libjpeg-turbo, faster than through OpenCV" ON)
option(CREMA_LIBPNG "Read PNG files with libpng" ON)
option(CREMA_LIBGIF "Read GIF files with giflib" ON)
option(CREMA_HDF5 "Read and write HDF5 files" ON)
option(CREMA_LEVELDB "Read and write LevelDB databases" ON)
option(CREMA_LIBARCHIVE "Read images from tar files with libarchive" ON)
option(CREMA_ANNOTATIONS "Read boxes in XML and JSON with pugixml and JSON for Modern C++, and YAML with yaml-cpp" ON)
option(CREMA_PYTHON "Build the Python packages crema and caffe; needs nanobind" OFF)
option(CREMA_WERROR "Treat warnings as errors" OFF)
option(CREMA_FUZZ "Build the programs of tests/fuzz for libFuzzer; needs Clang" OFF)
option(CREMA_CCACHE "Compile through ccache when it is there" ON)
set(CREMA_SANITIZE "" CACHE STRING "Sanitizers for all code, as in -fsanitize=: address,undefined")

if(CREMA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CREMA_FUZZ=ON needs Clang, whose libFuzzer the programs are linked with, and the \
compiler is ${CMAKE_CXX_COMPILER_ID}; configure with cmake --preset fuzz, or in a new folder with \
-DCMAKE_CXX_COMPILER=clang++ (on Debian and Ubuntu: apt install clang libomp-dev)")
  endif()
  # Counts for all of the library's code which branches an input takes.
  set(crema_sanitizers ${CREMA_SANITIZE} fuzzer-no-link)
  list(JOIN crema_sanitizers "," crema_sanitizers)
else()
  set(crema_sanitizers "${CREMA_SANITIZE}")
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build" FORCE)
endif()

if(CREMA_CCACHE)
  find_program(CREMA_CCACHE_PROGRAM ccache)
  mark_as_advanced(CREMA_CCACHE_PROGRAM)
  if(CREMA_CCACHE_PROGRAM)
    set(launcher ${PROJECT_SOURCE_DIR}/scripts/cmake/compile_cached ${CREMA_CCACHE_PROGRAM})
    foreach(language IN ITEMS CXX CUDA)
      if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
        set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
      endif()
    endforeach()
  endif()
endif()

# The language level, which generated code shares with ours.
function(crema_base_flags target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  # By hand, since CMake 3.25 does not know that nvcc has C++20.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON)
endfunction()

# Everything that our own sources are compiled with. Binaries are shipped, so the processor is never
# assumed: code for AVX2 or AVX-512 asks for it function by function.
function(crema_flags target)
  crema_base_flags(${target})
  set(warnings
    # Members that a designated initializer leaves out have their defaults: that is what it is for.
    -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wsuggest-override
    -Wextra-semi -Wvla)
  # nvcc writes line directives that -Wpedantic refuses.
  set(cuda_warnings -Xcompiler=-Wall,-Wextra,-Wshadow)
  if(CREMA_WERROR)
    list(APPEND warnings -Werror)
    list(APPEND cuda_warnings -Xcompiler=-Werror "SHELL:-Werror all-warnings")
  endif()
  # Nobody unmasks floating-point exceptions or reads errno after sqrt; without these two promises
  # loops with a condition or a square root are not vectorized. Results stay the same.
  set(arithmetic -fno-math-errno -fno-trapping-math)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${warnings};${arithmetic}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings};--expt-relaxed-constexpr;-lineinfo;-Xcompiler=-fopenmp,-fno-math-errno,-fno-trapping-math>")
  if(crema_sanitizers)
    set(flags -fsanitize=${crema_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
    target_link_options(${target} PUBLIC -fsanitize=${crema_sanitizers})
  endif()
endfunction()

# For what computes nothing in loops that matter: an optimised build takes 40% less time to compile it, and kernels are
# elsewhere. GCC still inlines calls and vectorizes loops, which costs no time.
function(crema_compile_quickly target)
  set(of_gcc -fstrict-aliasing -ftree-loop-vectorize -ftree-slp-vectorize -fvect-cost-model=dynamic
    -finline-small-functions -finline-functions -findirect-inlining)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo>>:-O1;$<$<CXX_COMPILER_ID:GNU>:${of_gcc}>>")
endfunction()

# What nearly every file spends its time on. Our own headers are quick, and change every day.
set(CREMA_SLOW_HEADERS
  <algorithm> <filesystem> <functional> <map> <memory> <optional> <set> <string> <vector>
  <proto/net.pb.h> <proto/solver.pb.h>)
