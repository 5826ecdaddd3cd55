# Sources of the rooms under layers/, and generated/rooms.cpp, which calls each room by name: a linker
# that drops unused members of a static library cannot lose one. It also holds the published types,
# from layers/published_types.txt.
#
#   layers/relu/relu.cpp               -> register_relu(registry)
#   layers/relu/relu_onednn.cpp        -> register_relu_onednn(registry), with oneDNN
#   layers/relu/*.cu, *_cudnn.cpp      -> register_relu_cuda(registry), with CUDA
#
# A file that includes kit/passes.hpp holds functors that kernels run too: nvcc compiles it, with CUDA.
#
# A pointwise room is layers/relu/relu_math.hpp without a relu.cpp (src/kit/pointwise.hpp): both
# files are written here.

file(GLOB crema_room_sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/layers/*/*.cpp")
file(GLOB crema_room_kernels CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/layers/*/*.cu")

set(crema_room_files "")
set(crema_room_names "")
foreach(source IN LISTS crema_room_sources crema_room_kernels)
  string(REGEX MATCH "^layers/([^/]+)/([^/]+)$" matched "${source}")
  set(room "${CMAKE_MATCH_1}")
  set(file "${CMAKE_MATCH_2}")
  if(file MATCHES "_onednn\\.cpp$")
    if(NOT CREMA_HAS_ONEDNN)
      continue()
    endif()
    if(file STREQUAL "${room}_onednn.cpp")
      list(APPEND crema_room_names "${room}_onednn")
    endif()
  elseif(file MATCHES "(_cudnn\\.cpp|\\.cu)$")
    if(NOT CREMA_HAS_CUDA)
      continue()
    endif()
    list(APPEND crema_room_names "${room}_cuda")
  elseif(file STREQUAL "${room}.cpp")
    list(APPEND crema_room_names "${room}")
  endif()
  list(APPEND crema_room_files "${PROJECT_SOURCE_DIR}/${source}")
  if(CREMA_HAS_CUDA AND file MATCHES "\\.cpp$")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${source}" passes REGEX "^#include \"kit/passes.hpp\"")
    if(passes)
      set_source_files_properties("${PROJECT_SOURCE_DIR}/${source}" PROPERTIES LANGUAGE CUDA)
    endif()
  endif()
endforeach()

file(GLOB crema_pointwise_rooms CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/layers/*/*_math.hpp")
foreach(math IN LISTS crema_pointwise_rooms)
  string(REGEX MATCH "^layers/([^/]+)/([^/]+)_math.hpp$" matched "${math}")
  set(room "${CMAKE_MATCH_1}")
  if(NOT CMAKE_MATCH_2 STREQUAL room OR EXISTS "${PROJECT_SOURCE_DIR}/layers/${room}/${room}.cpp")
    continue()
  endif()
  set(defines "// Written by scripts/cmake/rooms.cmake from ${math}.
#define CREMA_ROOM ${room}_room
#define CREMA_MATH \"${math}\"
")
  set(file "${CREMA_GENERATED_DIR}/rooms/${room}")
  file(CONFIGURE OUTPUT "${file}.cpp" CONTENT "${defines}#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \"${file}.cpp\"
#include \"kit/pointwise_room-inl.hpp\"

#if HWY_ONCE
namespace crema {
void register_${room}(Registry& registry);
void register_${room}(Registry& registry) { registry.add<${room}_room::Room>(${room}_room::Math::type); }
}  // namespace crema
#endif
" @ONLY)
  list(APPEND crema_room_files "${file}.cpp")
  list(APPEND crema_room_names "${room}")
  if(CREMA_HAS_CUDA)
    file(CONFIGURE OUTPUT "${file}.cu" CONTENT "${defines}#include \"kit/pointwise.cuh\"
#include \"crema/registry.hpp\"

namespace crema {
namespace ${room}_room {
#include CREMA_MATH
}  // namespace ${room}_room
void register_${room}_cuda(Registry& registry);
void register_${room}_cuda(Registry& registry) {
  registry.add_engine<PointwiseCuda<PointwiseLayer<${room}_room::Math>>>(
      ${room}_room::Math::type, \"cuda\", DeviceType::cuda);
}
}  // namespace crema
" @ONLY)
    list(APPEND crema_room_files "${file}.cu")
    list(APPEND crema_room_names "${room}_cuda")
  endif()
endforeach()
list(REMOVE_DUPLICATES crema_room_names)
list(SORT crema_room_names)

set(declarations "")
set(calls "")
foreach(name IN LISTS crema_room_names)
  string(APPEND declarations "void register_${name}(Registry& registry);\n")
  string(APPEND calls "  register_${name}(registry);\n")
endforeach()
set(parameter "[[maybe_unused]] Registry& registry")

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/layers/published_types.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/layers/published_types.txt" published REGEX "^[^#]")
list(TRANSFORM published REPLACE "^.+$" "      \"\\0\",\n")
list(JOIN published "" published)

file(CONFIGURE OUTPUT "${CREMA_GENERATED_DIR}/rooms.cpp" CONTENT
"// Written by scripts/cmake/rooms.cmake from the folders under layers/ and layers/published_types.txt.
#include <set>
#include <string>

namespace crema {

class Registry;

${declarations}
void register_all_rooms(Registry& registry);

void register_all_rooms(${parameter}) {
${calls}}

bool is_published_type(const std::string& type);

bool is_published_type(const std::string& type) {
  static const std::set<std::string> types = {
${published}  };
  return types.count(type) > 0;
}

}  // namespace crema
" @ONLY)
list(APPEND crema_room_files "${CREMA_GENERATED_DIR}/rooms.cpp")
