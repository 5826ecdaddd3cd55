# crema_add_plugin(NAME LAYERS FOLDER... [PROTOS FILE...] [SOURCES FILE...]): a plug-in of Crema, a module
# libNAME.so for `crema train --plugin` and crema::load_plugin().
#
#   LAYERS   folders as those under layers/: a folder NAME with NAME.proto, README.md and NAME_math.hpp, or
#            with NAME.cpp, NAME.cu and so on, where crema::register_NAME(Registry&) and
#            register_NAME_cuda are defined. A room need not have a .proto.
#   PROTOS   further messages
#   SOURCES  further sources, which register nothing
#
# x.proto becomes "NAME/x.pb.h", NAME being the plug-in, and is imported as "NAME/x.proto"; those of Crema
# are "proto/layer.proto" and so on. "layers/ROOM/x.hpp" is the header x.hpp of a room of the plug-in or else of Crema.
# Rooms are compiled for CUDA where Crema was and the project's language CUDA is enabled. They have no engines of oneDNN.

include("${CMAKE_CURRENT_LIST_DIR}/CremaRooms.cmake")
set(CREMA_PLUGIN_MODULE_DIR "${CMAKE_CURRENT_LIST_DIR}")

function(crema_add_plugin plugin)
  if(CMAKE_VERSION VERSION_LESS 3.25)
    message(FATAL_ERROR "crema_add_plugin needs CMake 3.25, and this is ${CMAKE_VERSION}")
  endif()
  cmake_parse_arguments(arg "" "" "LAYERS;PROTOS;SOURCES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT plugin MATCHES "^[A-Za-z_][A-Za-z0-9_]*$" OR NOT arg_LAYERS)
    message(FATAL_ERROR "crema_add_plugin(${plugin} ${ARGN}): use \
crema_add_plugin(NAME LAYERS FOLDER... [PROTOS FILE...] [SOURCES FILE...]), NAME being an identifier")
  endif()

  list(PREPEND CMAKE_MODULE_PATH "${CREMA_PLUGIN_MODULE_DIR}")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(Highway 1.0.3 REQUIRED)
  find_package(Protobuf CONFIG QUIET)
  if(NOT Protobuf_FOUND)
    find_package(Protobuf REQUIRED)
  endif()
  # Messages of the program and of the plug-in are known to one runtime.
  get_target_property(runtime protobuf::libprotobuf IMPORTED_LOCATION)
  if(runtime MATCHES "\\.a$")
    message(FATAL_ERROR "${runtime} is a static library; plug-ins need libprotobuf.so")
  endif()
  set(cuda OFF)
  if(CREMA_HAS_CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(cuda ON)
      find_package(CUDAToolkit REQUIRED)
      find_package(CUDNN REQUIRED)
    else()
      message(STATUS "Plug-in ${plugin} is for the CPU alone: enable_language(CUDA) comes before it")
    endif()
  endif()

  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${plugin}_generated")
  set(sources ${arg_SOURCES})
  set(registrations "")
  set(room_protos "")
  foreach(folder IN LISTS arg_LAYERS)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    string(REGEX REPLACE "/$" "" folder "${folder}")
    cmake_path(GET folder FILENAME room)
    if(NOT IS_DIRECTORY "${folder}")
      message(FATAL_ERROR "crema_add_plugin(${plugin}): there is no folder ${folder}")
    endif()
    # A room's text names its headers as in the tree.
    file(MAKE_DIRECTORY "${generated}/layers")
    file(CREATE_LINK "${folder}" "${generated}/layers/${room}" SYMBOLIC)
    file(GLOB protos CONFIGURE_DEPENDS "${folder}/*.proto")
    list(APPEND room_protos ${protos})
    file(GLOB room_sources CONFIGURE_DEPENDS "${folder}/*.cpp" "${folder}/*.cu")
    file(GLOB math CONFIGURE_DEPENDS "${folder}/${room}_math.hpp")
    if(math AND NOT EXISTS "${folder}/${room}.cpp")
      set(messages "")
      if(EXISTS "${folder}/${room}.proto")
        set(messages "${plugin}/${room}.pb.h")
      endif()
      set(file "${generated}/rooms/${room}")
      crema_pointwise_rooms(room_sources "${file}" ${cuda} "${messages}" ${room} "${math}")
    endif()
    crema_room_sources(files names ${room} ${cuda} OFF ${room_sources})
    if(NOT names)
      message(FATAL_ERROR "crema_add_plugin(${plugin}): ${folder} is no room: it has neither \
${room}_math.hpp nor ${room}.cpp")
    endif()
    list(APPEND sources ${files})
    list(APPEND registrations ${names})
  endforeach()

  if(cuda)
    crema_passes_for_cuda(${sources})
  endif()

  # protoc maps the folder of each file to the plug-in's name: the names of all files in a program differ.
  set(headers "")
  set(all_protos "")
  set(paths "")
  foreach(proto IN LISTS room_protos arg_PROTOS)
    cmake_path(ABSOLUTE_PATH proto NORMALIZE)
    cmake_path(GET proto PARENT_PATH folder)
    list(APPEND all_protos "${proto}")
    list(APPEND paths "-I${plugin}=${folder}")
  endforeach()
  list(REMOVE_DUPLICATES paths)
  list(APPEND paths "-I${CREMA_PROTO_DIR}")
  file(MAKE_DIRECTORY "${generated}/${plugin}")
  foreach(proto IN LISTS all_protos)
    cmake_path(GET proto STEM stem)
    set(output "${generated}/${plugin}/${stem}.pb")
    add_custom_command(OUTPUT "${output}.cc" "${output}.h"
      COMMAND protobuf::protoc ${paths} "--cpp_out=${generated}" "--dependency_out=${output}.d"
        "${proto}"
      DEPENDS "${proto}" protobuf::protoc
      DEPFILE "${output}.d"
      COMMENT "Generating ${plugin}/${stem}.pb.h"
      VERBATIM)
    list(APPEND sources "${output}.cc")
    list(APPEND headers "${output}.h")
  endforeach()
  if(sources)
    set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS "${headers}")
  endif()

  # What load_plugin reads before it loads the plug-in, and the entry point.
  set(descriptors "${generated}/${plugin}.descriptors")
  if(all_protos)
    add_custom_command(OUTPUT "${descriptors}"
      COMMAND protobuf::protoc ${paths} "--descriptor_set_out=${descriptors}" ${all_protos}
      DEPENDS ${all_protos} protobuf::protoc
      COMMENT "Describing the messages of ${plugin}"
      VERBATIM)
  else()
    file(TOUCH "${descriptors}")
  endif()
  set(entry "${generated}/${plugin}_entry.cpp")
  set(script "${CREMA_PLUGIN_MODULE_DIR}/write_plugin_entry.cmake")
  add_custom_command(OUTPUT "${entry}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${entry}" "-DNAME=${plugin}" "-DDESCRIPTORS=${descriptors}"
      "-DREGISTRATIONS=${registrations}" -P "${script}"
    DEPENDS "${descriptors}" "${script}"
    VERBATIM)

  add_library(${plugin} MODULE ${sources} "${entry}")
  # Names are the plug-in's own: neither the program nor another plug-in takes their place.
  set_target_properties(${plugin} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    CXX_EXTENSIONS OFF)
  target_compile_features(${plugin} PRIVATE cxx_std_20)
  # A project that says nothing would get loops that are not optimised.
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${plugin} PRIVATE -O3 -DNDEBUG)
  endif()
  # By hand, since CMake 3.25 does not know that nvcc has C++20.
  target_compile_options(${plugin} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-fopenmp>")
  target_include_directories(${plugin} PRIVATE "${generated}")
  target_include_directories(${plugin} SYSTEM PRIVATE
    "${CREMA_INCLUDE_DIR}" "${CREMA_INCLUDE_DIR}/crema/authors")
  if(NOT cuda)
    target_compile_definitions(${plugin} PRIVATE CREMA_CPU_PLUGIN)
  endif()
  target_link_libraries(${plugin} PRIVATE protobuf::libprotobuf Highway::Highway OpenMP::OpenMP_CXX)
  get_target_property(type Crema::crema TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_libraries(${plugin} PRIVATE Crema::crema)
  endif()
  if(cuda)
    target_link_libraries(${plugin} PRIVATE CUDA::cudart_static CUDA::cublas CUDNN::CUDNN)
    set_target_properties(${plugin} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
    # A runtime of its own: it shares the program's device, but no state.
    target_link_options(${plugin} PRIVATE "LINKER:--exclude-libs,ALL")
  endif()
endfunction()
