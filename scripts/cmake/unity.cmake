# crema_compile_together(TARGET SOURCE...): files that the compiler reads as one, at most six of them in the order of
# their paths, folder by folder; rooms count as one folder. Headers and templates that they share cost once. A change
# compiles six files again, for about the time of two. Which files are a group does not depend on options: one that a
# build leaves out leaves its group smaller.
#
# Names in anonymous namespaces meet within a group, and those of headers that a neighbour includes. A file with a name
# that is there already (the compiler says "redefinition" or "ambiguous"), or whose lambdas in members of a class hold a
# type of an anonymous namespace (-Wsubobject-linkage), goes on the list below, and is compiled alone. Others that are:
# kernels (crema_is_kernel); files with options or definitions of their own; and what nvcc compiles or the build writes.

set(crema_alone
  layers/attention/attention_cudnn.cpp
  layers/convolution/convolution.cpp
  layers/data/data.cpp
  layers/dropout/dropout.cpp
  layers/infogain_loss/infogain_loss.cpp
  layers/inner_product/device.cpp
  layers/inner_product/products.cpp
  layers/mat_mul/device.cpp
  layers/mat_mul/products.cpp
  layers/multibox_loss/multibox_loss.cpp
  layers/pooling/pooling.cpp
  layers/prelu/prelu.cpp
  layers/prior_box/prior_box.cpp
  layers/psroi_align/psroi_align.cpp
  layers/recurrent/library_passes.cpp
  layers/recurrent/recurrent_cudnn.cpp
  layers/recurrent/weight_space.cpp
  layers/region_detection_output/region_detection_output.cpp
  layers/roi_pooling/roi_pooling.cpp
  layers/softmax/softmax.cpp
  layers/softmax_loss/softmax_loss.cpp
  layers/spatial_transformer/map_sampler.cpp
  layers/yolov3/yolov3.cpp
  src/core/filler.cpp
  src/data/databases/database_folder.cpp
  src/layer_support/product_choice.cpp
  src/data/records/datum.cpp
  src/data/images/image_header.cpp
  src/data/images/png_header.cpp
  src/data/databases/lmdb_check.cpp
  src/model/binary_format.cpp
  src/model/file_kind.cpp
  src/net/graph.cpp
  src/solver/average_precision.cpp
  tools/checksum.cpp
  tools/detect.cpp
  tools/models.cpp
  tools/pages.cpp
  tools/program.cpp)

# Beside backends and files for Google Highway, which include themselves: loops for several sets of vector instructions
# (core/simd.hpp) that move, convert and draw whole tensors.
set(crema_more_kernels
  src/core/convert.cpp
  src/core/move.cpp
  src/core/random.cpp
  src/core/transpose.cpp)

# crema_is_kernel(RESULT SOURCE): whether the file is compiled with kernels, alone.
function(crema_is_kernel result source)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
  set(${result} OFF PARENT_SCOPE)
  # What the build writes of Highway's kernels is of rooms, whose messages it knows.
  if(path MATCHES "^(src|layers|tools)/.*[.]cpp$")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${path}" highway REGEX "^#define HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    if(highway OR path MATCHES "^src/backend/" OR path IN_LIST crema_more_kernels)
      set(${result} ON PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Gives each path its group, as the global property crema_group_of_PATH.
function(crema_find_groups)
  set(group_size 6)
  foreach(path IN LISTS crema_alone crema_more_kernels)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${path}")
      message(FATAL_ERROR "scripts/cmake/unity.cmake lists ${path}, which is not there")
    endif()
  endforeach()
  file(GLOB_RECURSE all CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src/*.cpp"
    "${PROJECT_SOURCE_DIR}/layers/*.cpp" "${PROJECT_SOURCE_DIR}/tools/*.cpp")
  list(FILTER all EXCLUDE REGEX "^src/backend/")
  list(SORT all)
  set(folders "")
  foreach(path IN LISTS all)
    if(path IN_LIST crema_alone)
      continue()
    endif()
    crema_is_kernel(is_kernel "${PROJECT_SOURCE_DIR}/${path}")
    if(is_kernel)
      continue()
    endif()
    cmake_path(GET path PARENT_PATH folder)
    string(REGEX REPLACE "^layers/.*" "layers" folder "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT folder IN_LIST folders)
      list(APPEND folders ${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR number "${count_${folder}} / ${group_size}")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    set_property(GLOBAL PROPERTY "crema_group_of_${path}" "${folder}_${number}")
  endforeach()
endfunction()
crema_find_groups()

function(crema_compile_together target)
  foreach(source IN LISTS ARGN)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    get_property(group GLOBAL PROPERTY "crema_group_of_${path}")
    if(group)
      set_source_files_properties("${PROJECT_SOURCE_DIR}/${path}" PROPERTIES UNITY_GROUP "${group}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# crema_compile_together_by_nvcc(TARGET SOURCE...): the same for those sources that nvcc compiles (crema_passes_for_cuda),
# which CMake 3.25 does not group. nvcc reads the headers of a file three times: for the host, for each architecture, and
# what it writes for g++. At most four files are a group: none with a name that another one of the group has at the
# beginning of a line, and none of the list above; where the compiler says "redefinition" of a new name, configure again.
function(crema_compile_together_by_nvcc target)
  set(group_size 4)
  set(last -1)
  foreach(source IN LISTS ARGN)
    get_source_file_property(language "${source}" LANGUAGE)
    cmake_path(GET source EXTENSION LAST_ONLY extension)
    if(NOT language STREQUAL "CUDA" OR NOT extension STREQUAL ".cpp")
      continue()
    endif()
    # Not by file(STRINGS): lines with a bracket would become one.
    file(READ "${source}" text)
    string(REGEX MATCHALL "\n(struct|class|enum class|using) [A-Za-z_0-9]+" types "${text}")
    string(REGEX MATCHALL "\n[A-Za-z][A-Za-z_0-9:<>,*& ]* k[A-Z][A-Za-z_0-9]*" constants "${text}")
    string(REGEX MATCHALL "\n[A-Za-z][A-Za-z_0-9:<>,*& ]* [*&]?[a-z_0-9]+[(]" functions "${text}")
    list(TRANSFORM functions REPLACE "[(]$" "")
    set(names ${types} ${constants} ${functions})
    list(TRANSFORM names REPLACE "^.*[ *&]" "")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    set(number 0)
    if(path IN_LIST crema_alone)
      math(EXPR number "${last} + 1")
      set(names ".*")
    endif()
    while(number LESS_EQUAL last)
      list(LENGTH files_${number} count)
      set(common ${names})
      list(FILTER common INCLUDE REGEX "^(${names_${number}})$")
      if(count LESS group_size AND NOT common)
        break()
      endif()
      math(EXPR number "${number} + 1")
    endwhile()
    if(number GREATER last)
      set(last ${number})
      set(files_${number} "")
      set(names_${number} "-")
    endif()
    list(APPEND files_${number} "${source}")
    list(JOIN names "|" joined)
    string(APPEND names_${number} "|${joined}")
    set_source_files_properties("${source}" PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  foreach(number RANGE ${last})
    set(text "// Written by scripts/cmake/unity.cmake.\n")
    foreach(source IN LISTS files_${number})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file "${CREMA_GENERATED_DIR}/passes/passes_${number}.cu")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    set_source_files_properties("${file}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${target} PRIVATE "${file}")
  endforeach()
endfunction()
