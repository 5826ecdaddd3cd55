# The headers that a layer outside of this tree is compiled with. Here they are listed, and hashed into
# crema/plugin_abi.hpp; package.cmake installs it. Its headers go to include/crema/authors, which is an
# include folder of plug-ins alone, so that a room's text is the same inside the tree and outside.

set(crema_author_headers
  backend/channel_view.hpp
  backend/cpu/highway.hpp
  backend/cpu/lanes-inl.hpp
  backend/cpu/math_lanes-inl.hpp
  backend/cpu/value-inl.hpp
  backend/relu.hpp
  backend/relu_math.hpp
  core/device.hpp
  core/functor.hpp
  core/parallel.hpp
  core/philox.hpp
  core/axis_split.hpp
  core/checked.hpp
  core/convert.hpp
  core/dispatch.hpp
  core/move.hpp
  layer_support/options.hpp
  layer_support/passes.hpp
  layer_support/pointwise.hpp
  layer_support/pointwise_room-inl.hpp
  layer_support/two_sided.hpp)
if(CREMA_HAS_CUDA)
  list(APPEND crema_author_headers
    backend/cuda/cuda_backend.hpp
    backend/cuda/kernels.cuh
    layer_support/pointwise.cuh)
endif()

get_target_property(crema_type crema TYPE)
if(crema_type STREQUAL "SHARED_LIBRARY")
  set(crema_kind shared)
else()
  set(crema_kind static)
endif()

file(GLOB public CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/include/crema/*.hpp")
set(authors ${crema_author_headers})
list(TRANSFORM authors PREPEND src/)
set(hashed ${public} ${authors} ${crema_protos})
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
