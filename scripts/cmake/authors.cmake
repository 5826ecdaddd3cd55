# The headers that a layer outside of this tree is compiled with. Here they are found, and hashed into
# crema/plugin_abi.hpp; package.cmake installs them. They go to include/crema/authors, which is an include folder
# of plug-ins alone, so that a room's text is the same inside the tree and outside.

# A room may include what src/README.md says of rooms: whole folders, since a list would have to follow each room.
# Not the wrappers of libraries, of which rooms see no header but CUDA's and oneDNN's; crema_add_plugin compiles
# nothing for oneDNN. Of databases, rooms see the sources and the names of their classes, and of converters nothing. Rooms extend each other, so
# headers of rooms are among them.
file(GLOB crema_author_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/src/backend/*.hpp" "${PROJECT_SOURCE_DIR}/src/core/*.hpp"
  "${PROJECT_SOURCE_DIR}/src/backend/cpu/*.hpp" "${PROJECT_SOURCE_DIR}/src/layer_support/*.hpp"
  "${PROJECT_SOURCE_DIR}/src/model/*.hpp" "${PROJECT_SOURCE_DIR}/layers/*/*.hpp"
  "${PROJECT_SOURCE_DIR}/src/data/batches/*.hpp" "${PROJECT_SOURCE_DIR}/src/data/boxes/*.hpp"
  "${PROJECT_SOURCE_DIR}/src/data/databases/open_*.hpp" "${PROJECT_SOURCE_DIR}/src/data/databases/tar_source.hpp"
  "${PROJECT_SOURCE_DIR}/src/data/databases/class_file.hpp"
  "${PROJECT_SOURCE_DIR}/src/data/images/*.hpp" "${PROJECT_SOURCE_DIR}/src/parallel/*.hpp"
  "${PROJECT_SOURCE_DIR}/src/onnx/operators/array.hpp" "${PROJECT_SOURCE_DIR}/src/onnx/operators/operator.hpp"
  "${PROJECT_SOURCE_DIR}/src/data/records/*.hpp" "${PROJECT_SOURCE_DIR}/src/data/transform/*.hpp")
if(CREMA_HAS_CUDA)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/src/backend/cuda/*.hpp" "${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cuh"
    "${PROJECT_SOURCE_DIR}/src/layer_support/*.cuh")
  list(APPEND crema_author_headers ${headers})
endif()

get_target_property(crema_type crema TYPE)
if(crema_type STREQUAL "SHARED_LIBRARY")
  set(crema_kind shared)
else()
  set(crema_kind static)
endif()

file(GLOB public CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/include/crema/*.hpp")
set(hashed ${public} ${crema_author_headers} ${crema_protos})
list(JOIN hashed "\n" lines)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/plugin_abi_files.txt" CONTENT "${lines}\n" @ONLY)
list(TRANSFORM hashed PREPEND "${PROJECT_SOURCE_DIR}/")
set(crema_plugin_abi "${CREMA_GENERATED_DIR}/crema/plugin_abi.hpp")
add_custom_command(OUTPUT "${crema_plugin_abi}"
  COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${crema_plugin_abi}" "-DVERSION=${PROJECT_VERSION}"
    "-DKIND=${crema_kind}" "-DFILES=${PROJECT_BINARY_DIR}/plugin_abi_files.txt"
    "-DROOT=${PROJECT_SOURCE_DIR}" -P "${CMAKE_CURRENT_LIST_DIR}/write_plugin_abi.cmake"
  DEPENDS ${hashed} "${PROJECT_BINARY_DIR}/plugin_abi_files.txt"
    "${CMAKE_CURRENT_LIST_DIR}/write_plugin_abi.cmake"
  COMMENT "Generating crema/plugin_abi.hpp"
  VERBATIM)
target_sources(crema PRIVATE "${crema_plugin_abi}")
target_link_libraries(crema PRIVATE ${CMAKE_DL_LIBS})

include(CremaHost)
